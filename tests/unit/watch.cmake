add_executable(unit_settings ${CMAKE_CURRENT_LIST_DIR}/settings/settings_test.cc)
target_link_libraries(unit_settings PRIVATE watchdog_settings ncclwatch_warnings GTest::gtest_main)
gtest_discover_tests(unit_settings TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST)

add_executable(unit_rundir ${CMAKE_CURRENT_LIST_DIR}/rundir/launcher_test.cc ${CMAKE_CURRENT_LIST_DIR}/rundir/run_directory_test.cc)
target_link_libraries(unit_rundir PRIVATE watchdog_rundir ncclwatch_warnings GTest::gtest_main)
gtest_discover_tests(unit_rundir TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST)
