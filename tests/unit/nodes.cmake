# What node leaders tell one another, and the job-wide view, over a network in memory.
if(TARGET core_nodes)
  add_library(spread_jobs STATIC ${CMAKE_CURRENT_LIST_DIR}/nodes/faults.cc ${CMAKE_CURRENT_LIST_DIR}/nodes/network.cc
                                 ${CMAKE_CURRENT_LIST_DIR}/nodes/spread.cc)
  target_link_libraries(spread_jobs PUBLIC job_builder core_nodes GTest::gtest PRIVATE ncclwatch_warnings)
  add_executable(unit_nodes ${CMAKE_CURRENT_LIST_DIR}/nodes/bounds_test.cc ${CMAKE_CURRENT_LIST_DIR}/nodes/hub_test.cc ${CMAKE_CURRENT_LIST_DIR}/nodes/image_code_test.cc
                            ${CMAKE_CURRENT_LIST_DIR}/nodes/table_test.cc)
  target_link_libraries(unit_nodes PRIVATE spread_jobs ncclwatch_warnings GTest::gtest_main)
  gtest_discover_tests(unit_nodes TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST)
endif()
