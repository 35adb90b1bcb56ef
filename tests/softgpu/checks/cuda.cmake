softgpu_checks(cuda cuda_streams_test.cc cuda_events_test.cc cuda_memory_test.cc cuda_memory_operations_test.cc
  cuda_graphs_test.cc cuda_capture_test.cc cuda_process_test.cc cuda_device_test.cc cuda_runtime_test.cc
  cuda_legacy_stream_test.cc)
