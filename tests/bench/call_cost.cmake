# The cost of one watched call against its floor; `./dev bench` runs it for the figures, ctest for the limit.
add_library(call_cost_target SHARED ${CMAKE_CURRENT_LIST_DIR}/call_cost_target.cc)
target_include_directories(call_cost_target PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(call_cost_target PRIVATE ncclwatch_format cuda_headers ncclwatch_warnings)
set_target_properties(call_cost_target PROPERTIES CXX_VISIBILITY_PRESET default
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/call_cost OUTPUT_NAME nccl SOVERSION 2)
add_executable(call_cost ${CMAKE_CURRENT_LIST_DIR}/call_cost.cc)
target_include_directories(call_cost PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(call_cost PRIVATE -Wl,--no-as-needed ncclwatch call_cost_target cuda_headers ncclwatch_warnings)
if(NOT NCCLWATCH_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  # On a machine that others use too a ratio of bests is steady within some 10 %; 2 is the promise.
  add_test(NAME bench.call_cost COMMAND call_cost 100 2.0)
  set_tests_properties(bench.call_cost PROPERTIES TIMEOUT 120 RUN_SERIAL TRUE)
endif()
