# The built library, through its own exports, with a libnccl behind it that only takes notes.
add_library(shim_fake_nccl SHARED ${CMAKE_CURRENT_LIST_DIR}/shim/fake_nccl.cc)
add_library(shim_second_nccl SHARED ${CMAKE_CURRENT_LIST_DIR}/shim/second_nccl.cc)
foreach(fake shim_fake_nccl shim_second_nccl)
  target_include_directories(${fake} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${fake} PRIVATE cuda_headers ncclwatch_warnings)
  set_target_properties(${fake} PROPERTIES CXX_VISIBILITY_PRESET default DISABLE_PRECOMPILE_HEADERS ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${fake} OUTPUT_NAME nccl SOVERSION 2)
  # Calls among its own functions go through the PLT, as in the real one.
  target_compile_options(${fake} PRIVATE -fno-inline -fsemantic-interposition)
endforeach()
set_target_properties(shim_second_nccl PROPERTIES OUTPUT_NAME second)
# Found by its name, like the real driver; opened by the tests that want marks.
add_library(shim_fake_cuda SHARED ${CMAKE_CURRENT_LIST_DIR}/shim/fake_cuda.cc)
target_link_libraries(shim_fake_cuda PRIVATE cuda_headers ncclwatch_warnings)
set_target_properties(shim_fake_cuda PROPERTIES CXX_VISIBILITY_PRESET default
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/shim_fake_cuda OUTPUT_NAME cuda SOVERSION 1)

add_executable(unit_shim
  ${CMAKE_CURRENT_LIST_DIR}/shim/calls_test.cc ${CMAKE_CURRENT_LIST_DIR}/shim/communicators_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/shim/dlsym_test.cc ${CMAKE_CURRENT_LIST_DIR}/shim/first_use_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/shim/table_test.cc ${CMAKE_CURRENT_LIST_DIR}/shim/aborted_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/shim/stacks_test.cc ${CMAKE_CURRENT_LIST_DIR}/shim/ending_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/shim/open_buffers_test.cc ${CMAKE_CURRENT_LIST_DIR}/shim/own_memory_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/shim/slots_test.cc ${CMAKE_SOURCE_DIR}/shim/black_box/slots.cc
  ${CMAKE_CURRENT_LIST_DIR}/shim/profiler_cost_test.cc ${CMAKE_SOURCE_DIR}/shim/profiler/cost.cc
  ${CMAKE_CURRENT_LIST_DIR}/shim/mappings_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/shim/unwind_path_test.cc ${CMAKE_SOURCE_DIR}/shim/base/unwind_path.cc
  ${CMAKE_SOURCE_DIR}/shim/mpi/core/own_memory.cc ${CMAKE_SOURCE_DIR}/shim/base/self_memory.cc
  ${CMAKE_CURRENT_LIST_DIR}/shim/support.cc)
target_include_directories(unit_shim PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(unit_shim PRIVATE SHIM_FAKE_NCCL="$<TARGET_FILE:shim_fake_nccl>"
  SHIM_SECOND_NCCL="$<TARGET_FILE:shim_second_nccl>" SHIM_FAKE_CUDA="$<TARGET_FILE:shim_fake_cuda>"
  SHIM_LIBRARY="$<TARGET_FILE:ncclwatch>"
  SHIM_NCCL_INCLUDE="${NCCL_INCLUDE_DIR}" SHIM_OPENMPI_INCLUDE="${MPI_INCLUDE_openmpi}"
  SHIM_MPICH_INCLUDE="${MPI_INCLUDE_mpich}")
# In this order: the library stands in front, the fake behind it.
target_link_libraries(unit_shim PRIVATE -Wl,--no-as-needed ncclwatch shim_fake_nccl ncclwatch_format cuda_headers
  ncclwatch_warnings GTest::gtest_main)
add_dependencies(unit_shim shim_second_nccl shim_fake_cuda)
if(NCCLWATCH_SANITIZE MATCHES "undefined")
  # The tests pass datatypes that do not exist.
  foreach(target unit_shim shim_fake_nccl)
    target_compile_options(${target} PRIVATE -fno-sanitize=enum)
  endforeach()
endif()
# Lines of Python, on frames of every version that are put into its own memory.
add_executable(unit_python_lines ${CMAKE_CURRENT_LIST_DIR}/shim/python_lines_test.cc
  ${CMAKE_SOURCE_DIR}/shim/python/frames.cc ${CMAKE_SOURCE_DIR}/shim/python/lines.cc
  ${CMAKE_SOURCE_DIR}/shim/python/new_line.cc
  ${CMAKE_SOURCE_DIR}/shim/base/self_memory.cc)
target_include_directories(unit_python_lines PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(unit_python_lines PRIVATE fake_python_process watchdog_cpython ncclwatch_format cuda_headers
  ncclwatch_warnings GTest::gtest_main)
gtest_discover_tests(unit_python_lines TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST)
# A process of its own: NCCLWATCH_GPU is read once.
add_executable(unit_shim_starts ${CMAKE_CURRENT_LIST_DIR}/shim/starts_test.cc ${CMAKE_CURRENT_LIST_DIR}/shim/support.cc)
target_include_directories(unit_shim_starts PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(unit_shim_starts PRIVATE SHIM_FAKE_CUDA="$<TARGET_FILE:shim_fake_cuda>")
target_link_libraries(unit_shim_starts PRIVATE -Wl,--no-as-needed ncclwatch shim_fake_nccl ncclwatch_format cuda_headers
  ncclwatch_warnings GTest::gtest_main)
add_dependencies(unit_shim_starts shim_fake_cuda)
# The library leaks at exit rather than destroy what other threads may be using; a forked child starts its watchdog.
foreach(target unit_shim unit_shim_starts)
  gtest_discover_tests(${target} TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST
                       PROPERTIES ENVIRONMENT ASAN_OPTIONS=detect_leaks=0
                       ENVIRONMENT_MODIFICATION TSAN_OPTIONS=set:die_after_fork=0)
endforeach()
