# Target boost_headers: Beast and Asio for the HTTP server of `metrics`, Math for the statistics of `compare` and
# `correlate`. Nothing of Boost is linked.
find_path(BOOST_INCLUDE_DIR boost/beast/http.hpp)
if(NOT BOOST_INCLUDE_DIR)
  message(FATAL_ERROR "no boost/beast/http.hpp found: install libboost-dev, or let ./dev do it")
endif()
add_library(boost_headers INTERFACE)
target_include_directories(boost_headers SYSTEM INTERFACE ${BOOST_INCLUDE_DIR})
