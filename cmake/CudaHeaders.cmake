# Only headers of the CUDA Toolkit and NCCL are needed: an installed toolkit, else NVIDIA's packages from PyPI, which
# `./dev` unpacks below build/cuda-headers.
find_path(CUDA_INCLUDE_DIR cuda_runtime_api.h
  HINTS $ENV{CUDA_HOME}/include /usr/local/cuda/include ${CMAKE_SOURCE_DIR}/build/cuda-headers/include)
find_path(NCCL_INCLUDE_DIR nccl.h
  HINTS $ENV{CUDA_HOME}/include /usr/local/cuda/include ${CMAKE_SOURCE_DIR}/build/cuda-headers/include)
if(NOT CUDA_INCLUDE_DIR OR NOT NCCL_INCLUDE_DIR)
  message(FATAL_ERROR "no cuda_runtime_api.h or nccl.h found: run ./dev build, which fetches NVIDIA's header packages")
endif()

add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE ${CUDA_INCLUDE_DIR} ${NCCL_INCLUDE_DIR})
