softgpu_checks(cuda cuda_streams_test.cpp cuda_events_test.cpp cuda_memory_test.cpp cuda_memory_operations_test.cpp
  cuda_graphs_test.cpp cuda_capture_test.cpp cuda_process_test.cpp cuda_device_test.cpp cuda_runtime_test.cpp
  cuda_legacy_stream_test.cpp)
