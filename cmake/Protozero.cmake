# Target protozero: reads and writes messages of protocol buffers (Perfetto, Chakra). Headers only.
find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_writer.hpp)
if(NOT PROTOZERO_INCLUDE_DIR)
  message(FATAL_ERROR "no protozero/pbf_writer.hpp found: install libprotozero-dev, or let ./dev do it")
endif()
add_library(protozero INTERFACE)
target_include_directories(protozero SYSTEM INTERFACE ${PROTOZERO_INCLUDE_DIR})
