# Target ncclwatch_version: ncclwatch/version.h, which names the version and the commit that was built. A source tree
# without git may be given the commit: -DNCCLWATCH_COMMIT=...
set(NCCLWATCH_COMMIT "" CACHE STRING "the commit that is built, where git cannot tell")
set(commit "${NCCLWATCH_COMMIT}")
if(NOT commit AND EXISTS ${PROJECT_SOURCE_DIR}/.git)
  execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --short=9 HEAD
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --git-path logs/HEAD
                  OUTPUT_VARIABLE log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  cmake_path(ABSOLUTE_PATH log BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(EXISTS ${log})  # it changes with each commit
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${log})
  endif()
endif()
set(text "${PROJECT_VERSION}")
if(commit)
  string(APPEND text ", commit ${commit}")
endif()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/ncclwatch/version.h CONTENT
  "#pragma once\n#define NCCLWATCH_VERSION \"${text}\"  // as `ncclwatch --version` prints\n")
add_library(ncclwatch_version INTERFACE)
target_include_directories(ncclwatch_version INTERFACE ${CMAKE_BINARY_DIR}/generated)
