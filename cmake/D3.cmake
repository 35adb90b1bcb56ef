# D3_SCRIPT and D3_LICENCE: what `ncclwatch report` puts into its page.
find_file(D3_SCRIPT d3.min.js PATHS /usr/share/nodejs/d3/dist NO_DEFAULT_PATH)
find_file(D3_LICENCE copyright PATHS /usr/share/doc/node-d3 NO_DEFAULT_PATH)
if(NOT (D3_SCRIPT AND D3_LICENCE))
  message(FATAL_ERROR "no d3.min.js found: install node-d3, or let ./dev do it")
endif()
