add_executable(unit_correlate ${CMAKE_CURRENT_LIST_DIR}/correlate/precursors_test.cc)
target_link_libraries(unit_correlate PRIVATE ncclwatch_correlate ncclwatch_warnings GTest::gtest_main)
gtest_discover_tests(unit_correlate TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST)
