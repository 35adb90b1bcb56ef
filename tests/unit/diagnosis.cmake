# The reader and the diagnosis. The builder of jobs and boxes is also for the golden verdicts and the fuzzers' corpus.
add_library(job_builder STATIC ${CMAKE_CURRENT_LIST_DIR}/support/job_builder.cc
  ${CMAKE_CURRENT_LIST_DIR}/support/box_writer.cc
  ${CMAKE_CURRENT_LIST_DIR}/support/mpi_job.cc)
target_link_libraries(job_builder PUBLIC core_diagnosis PRIVATE test_black_box ncclwatch_warnings)

add_executable(unit_diagnosis
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/crowd_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/death_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/healthy_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/jobs_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/live_compare_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mismatch_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/render_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/stall_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/where_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/reader/reader_test.cc ${CMAKE_CURRENT_LIST_DIR}/reader/sift_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/reader/stacks_test.cc)
target_link_libraries(unit_diagnosis PRIVATE job_builder ncclwatch_warnings GTest::gtest_main)
gtest_discover_tests(unit_diagnosis TEST_PREFIX unit. DISCOVERY_MODE PRE_TEST)
target_compile_definitions(unit_diagnosis PRIVATE NCCLWATCH_DIAGNOSES="${PROJECT_SOURCE_DIR}/docs/DIAGNOSES.md")
target_sources(unit_diagnosis PRIVATE ${CMAKE_CURRENT_LIST_DIR}/diagnosis/advice_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/bursts_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/ignore_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/reader/words_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/words_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/device_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/sequence_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/departure_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/links_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/rules_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/meanwhile_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/straggler_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/reader/meanwhile_test.cc ${CMAKE_CURRENT_LIST_DIR}/reader/machine_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/environment_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/numbers_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/reported_steps_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/training_test.cc)
target_sources(unit_diagnosis PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/mpi_world.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/healthy_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/deadlock_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/channels_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/amounts_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/creations_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/epochs_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/epoch_waits_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/message_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/misuse_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/race_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/stall_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/threads_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/unseen_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/mpi/creation_arguments_test.cc ${CMAKE_CURRENT_LIST_DIR}/diagnosis/sent_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/reader/awaited_test.cc ${CMAKE_CURRENT_LIST_DIR}/reader/witness_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/diagnosis/killed_with_others_test.cc ${CMAKE_CURRENT_LIST_DIR}/reader/parts_test.cc)
target_link_libraries(unit_diagnosis PRIVATE core_nodes)
