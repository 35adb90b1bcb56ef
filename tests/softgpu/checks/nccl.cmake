# One program with a main of its own: it starts itself again for ranks that are processes. Tests are softgpu.nccl.*
add_executable(softgpu_nccl_checks nccl_harness.cc nccl_correctness_test.cc nccl_group_test.cc
  nccl_communicator_test.cc nccl_ending_test.cc nccl_error_test.cc nccl_hang_test.cc nccl_log_test.cc
  nccl_non_blocking_test.cc)
target_link_libraries(softgpu_nccl_checks PRIVATE softgpu_nccl softgpu_cuda cuda_headers ncclwatch_warnings GTest::gtest)
set_target_properties(softgpu_nccl_checks PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
gtest_discover_tests(softgpu_nccl_checks TEST_PREFIX softgpu.nccl. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
