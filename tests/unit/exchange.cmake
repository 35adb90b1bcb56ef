add_library(exchange_cluster STATIC ${CMAKE_CURRENT_LIST_DIR}/exchange/cluster.cc ${CMAKE_CURRENT_LIST_DIR}/exchange/redis_server.cc
                                    ${CMAKE_CURRENT_LIST_DIR}/exchange/relay.cc)
target_link_libraries(exchange_cluster PUBLIC watchdog_exchange PRIVATE ncclwatch_warnings)

add_executable(unit_exchange
  ${CMAKE_CURRENT_LIST_DIR}/exchange/address_test.cc ${CMAKE_CURRENT_LIST_DIR}/exchange/bind_test.cc ${CMAKE_CURRENT_LIST_DIR}/exchange/bounds_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/exchange/faults_test.cc ${CMAKE_CURRENT_LIST_DIR}/exchange/guessable_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/exchange/open_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/exchange/parts_test.cc ${CMAKE_CURRENT_LIST_DIR}/exchange/redis_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/exchange/session_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/exchange/crypto_test.cc ${CMAKE_CURRENT_LIST_DIR}/exchange/redis_tls_test.cc ${CMAKE_CURRENT_LIST_DIR}/exchange/strangers_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/exchange/tcp_test.cc)
target_link_libraries(unit_exchange PRIVATE exchange_cluster ncclwatch_warnings GTest::gtest_main)
gtest_discover_tests(unit_exchange TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 120)
