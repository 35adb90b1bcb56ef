# Headers that nearly every source reads are compiled once: reading them costs more than most sources do themselves. A
# source still includes what it uses: the preset `dev`, which lint reads, does without.
option(NCCLWATCH_PRECOMPILED "compile common headers once" ON)

set(NCCLWATCH_COMMON_HEADERS
  <algorithm> <array> <atomic> <charconv> <cstdint> <cstdio> <cstdlib> <cstring> <functional> <map> <memory> <optional>
  <set> <string> <string_view> <tuple> <unordered_map> <utility> <variant> <vector>)
# What only programs may use.
set(NCCLWATCH_PROGRAM_HEADERS
  ${NCCLWATCH_COMMON_HEADERS} <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h> <absl/status/statusor.h>
  <fmt/core.h> <nlohmann/json.hpp>)

# Programs are compiled as libraries are: GCC reads compiled headers only under the same options.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # ccache asks for it
  # A tenth of a build went into collecting garbage of the compiler, which is then below a gigabyte.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1048576>")
  # GCC bug 105329: strings that were inlined from compiled headers are warned of.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds;-Wno-stringop-overread>")
endif()

# One target for each set of headers. All that use them are compiled with the options of that target.
function(ncclwatch_precompiled_headers name)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cc CONTENT "// ${name}: CMake compiles the headers beside it.\n")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cc)
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

# ncclwatch_precompile(<folder>): every C++ target in it and below.
function(ncclwatch_precompile folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    set(sources "")
    if(NOT type MATCHES "^(INTERFACE_LIBRARY|UTILITY)$")
      get_target_property(sources ${target} SOURCES)
    endif()
    if(NOT sources MATCHES "[.]cc(;|$)" OR target MATCHES "^ncclwatch_((common|program|test)_headers|fmt)$")
      continue()
    elseif(libraries MATCHES "GTest::")
      # Tests of the release build wait for others, not for their own code.
      target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
      target_precompile_headers(${target} REUSE_FROM ncclwatch_test_headers)
    elseif(libraries MATCHES "ncclwatch_abseil")
      target_precompile_headers(${target} REUSE_FROM ncclwatch_program_headers)
    else()
      target_precompile_headers(${target} REUSE_FROM ncclwatch_common_headers)
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    ncclwatch_precompile(${below})
  endforeach()
endfunction()

if(NCCLWATCH_PRECOMPILED)
  ncclwatch_precompiled_headers(ncclwatch_common_headers ${NCCLWATCH_COMMON_HEADERS})
  find_package(nlohmann_json REQUIRED)
  ncclwatch_precompiled_headers(ncclwatch_program_headers ${NCCLWATCH_PROGRAM_HEADERS})
  target_link_libraries(ncclwatch_program_headers PRIVATE ncclwatch_abseil nlohmann_json::nlohmann_json)
  if(NOT CMAKE_CROSSCOMPILING)
    find_package(GTest REQUIRED)
    ncclwatch_precompiled_headers(ncclwatch_test_headers ${NCCLWATCH_COMMON_HEADERS} <gtest/gtest.h>)
    target_compile_options(ncclwatch_test_headers PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
    target_link_libraries(ncclwatch_test_headers PRIVATE GTest::gtest)
  endif()
endif()
