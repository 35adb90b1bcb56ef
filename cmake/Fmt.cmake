# fmt without its shared library, compiled once: sources include <fmt/core.h> or <fmt/format.h> and link ncclwatch_fmt.
find_path(FMT_INCLUDE_DIR fmt/format.h)
if(NOT FMT_INCLUDE_DIR)
  message(FATAL_ERROR "no fmt/format.h found: install libfmt-dev, or let ./dev do it")
endif()
add_library(ncclwatch_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cc)
target_include_directories(ncclwatch_fmt SYSTEM PUBLIC ${FMT_INCLUDE_DIR})
target_link_libraries(ncclwatch_fmt PRIVATE ncclwatch_warnings)
set_target_properties(ncclwatch_fmt PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
