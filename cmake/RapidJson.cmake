# Target rapidjson: reads traces of torch's profiler. Headers only.
find_path(RAPIDJSON_INCLUDE_DIR rapidjson/reader.h)
if(NOT RAPIDJSON_INCLUDE_DIR)
  message(FATAL_ERROR "no rapidjson/reader.h found: install rapidjson-dev, or let ./dev do it")
endif()
add_library(rapidjson INTERFACE)
target_include_directories(rapidjson SYSTEM INTERFACE ${RAPIDJSON_INCLUDE_DIR})
