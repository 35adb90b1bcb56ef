add_executable(unit_descriptors ${CMAKE_CURRENT_LIST_DIR}/descriptors/high_test.cc ${CMAKE_CURRENT_LIST_DIR}/descriptors/directory_test.cc
                                ${CMAKE_CURRENT_LIST_DIR}/descriptors/standard_test.cc
                                ${CMAKE_CURRENT_LIST_DIR}/text/compact_json_test.cc
                                ${CMAKE_CURRENT_LIST_DIR}/text/printable_test.cc)
target_link_libraries(unit_descriptors PRIVATE watchdog_descriptors ncclwatch_warnings GTest::gtest_main)
gtest_discover_tests(unit_descriptors TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST)

add_executable(unit_log ${CMAKE_CURRENT_LIST_DIR}/log/log_test.cc)
target_link_libraries(unit_log PRIVATE watchdog_log watchdog_descriptors ncclwatch_warnings GTest::gtest_main)
gtest_discover_tests(unit_log TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST)

add_executable(unit_settings ${CMAKE_CURRENT_LIST_DIR}/settings/settings_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/settings/redact_test.cc ${CMAKE_CURRENT_LIST_DIR}/settings/rules_test.cc)
target_link_libraries(unit_settings PRIVATE watchdog_settings ncclwatch_warnings GTest::gtest_main)
target_compile_definitions(unit_settings PRIVATE SECURITY_PAGE="${PROJECT_SOURCE_DIR}/docs/deploy/security.md")
gtest_discover_tests(unit_settings TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST)

add_executable(unit_rundir ${CMAKE_CURRENT_LIST_DIR}/rundir/launcher_test.cc ${CMAKE_CURRENT_LIST_DIR}/rundir/run_directory_test.cc
               ${CMAKE_CURRENT_LIST_DIR}/rundir/sweep_test.cc)
target_link_libraries(unit_rundir PRIVATE watchdog_rundir ncclwatch_warnings GTest::gtest_main)
gtest_discover_tests(unit_rundir TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST)

if(TARGET watchdog_act)
  add_executable(unit_act ${CMAKE_CURRENT_LIST_DIR}/watch/act_test.cc ${CMAKE_CURRENT_LIST_DIR}/watch/evidence_test.cc
                          ${CMAKE_CURRENT_LIST_DIR}/watch/hook_test.cc ${CMAKE_CURRENT_LIST_DIR}/watch/program_test.cc
                          ${CMAKE_CURRENT_LIST_DIR}/watch/system_log_test.cc)
  target_link_libraries(unit_act PRIVATE watchdog_act ncclwatch_warnings GTest::gtest_main)
  gtest_discover_tests(unit_act TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST)
endif()

if(TARGET watchdog_watch AND TARGET core_diagnosis)
  add_executable(unit_watch ${CMAKE_CURRENT_LIST_DIR}/watch/fake_rank.cc ${CMAKE_CURRENT_LIST_DIR}/watch/ask_signal_test.cc
                            ${CMAKE_CURRENT_LIST_DIR}/watch/call_sites_test.cc
                            ${CMAKE_CURRENT_LIST_DIR}/watch/clock_test.cc ${CMAKE_CURRENT_LIST_DIR}/watch/event_file_test.cc
                            ${CMAKE_CURRENT_LIST_DIR}/watch/farewell_test.cc
                            ${CMAKE_CURRENT_LIST_DIR}/watch/guessable_test.cc
                            ${CMAKE_CURRENT_LIST_DIR}/watch/coordinator_setup_test.cc ${CMAKE_CURRENT_LIST_DIR}/watch/lease_test.cc
                            ${CMAKE_CURRENT_LIST_DIR}/watch/limits_test.cc ${CMAKE_CURRENT_LIST_DIR}/watch/memory_figures_test.cc
                            ${CMAKE_CURRENT_LIST_DIR}/watch/stacks_of_verdict_test.cc
                            ${CMAKE_CURRENT_LIST_DIR}/watch/boxless_search_test.cc
                            ${CMAKE_CURRENT_LIST_DIR}/watch/verdict_test.cc
                            ${CMAKE_CURRENT_LIST_DIR}/watch/watchdog_test.cc)
  target_link_libraries(unit_watch PRIVATE watchdog_watch watchdog_descriptors exchange_cluster test_black_box ncclwatch_warnings
                                           GTest::gtest_main)
  # Ranks are forked children, and start threads.
  gtest_discover_tests(unit_watch TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT 120 ENVIRONMENT_MODIFICATION TSAN_OPTIONS=set:die_after_fork=0)
endif()
