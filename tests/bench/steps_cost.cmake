# What it costs to follow steps while a job runs; the figures are docs/results.md's.
if(TARGET job_builder AND TARGET core_nodes)
  add_executable(steps_cost ${CMAKE_CURRENT_LIST_DIR}/steps_cost.cc)
  target_link_libraries(steps_cost PRIVATE job_builder watchdog_watch ncclwatch_fmt ncclwatch_warnings)
endif()
