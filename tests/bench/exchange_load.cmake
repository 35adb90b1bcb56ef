if(TARGET exchange_cluster)  # not for another processor
  add_executable(exchange_load ${CMAKE_CURRENT_LIST_DIR}/exchange_load.cc)
  target_link_libraries(exchange_load PRIVATE exchange_cluster watchdog_exchange ncclwatch_warnings)
  # A few only, so that the program itself stays whole; the figures are docs/results.md's.
  add_test(NAME bench.exchange_load_tcp COMMAND exchange_load --nodes 40 --seconds 1)
  add_test(NAME bench.exchange_load_redis COMMAND exchange_load --nodes 40 --seconds 1 --transport redis)
  set_tests_properties(bench.exchange_load_tcp bench.exchange_load_redis PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
endif()
