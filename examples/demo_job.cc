// All examples in one program, for `ncclwatch demo`: the first argument is the name of one. So an installation holds
// one file of them.
#include <cstdio>
#include <cstring>

#define main example_healthy_training
#include "healthy_training/main.cc"
#undef main
#define main example_skipped_collective
#include "skipped_collective/main.cc"
#undef main
#define main example_stuck_data_loader
#include "stuck_data_loader/main.cc"
#undef main
#define main example_uneven_last_batch
#include "uneven_last_batch/main.cc"
#undef main
#define main example_rank0_logging
#include "rank0_logging/main.cc"
#undef main
#define main example_bucket_sizes
#include "bucket_sizes/main.cc"
#undef main
#define main example_wrong_dtype
#include "wrong_dtype/main.cc"
#undef main
#define main example_exception
#include "exception/main.cc"
#undef main
#define main example_killed
#include "killed/main.cc"
#undef main
#define main example_frozen
#include "frozen/main.cc"
#undef main
#define main example_stuck_stream
#include "stuck_stream/main.cc"
#undef main
#define main example_wrong_world_size
#include "wrong_world_size/main.cc"
#undef main
#define main example_missing_at_start
#include "missing_at_start/main.cc"
#undef main
#define main example_straggler
#include "straggler/main.cc"
#undef main

int main(int argc, char** argv) {
  constexpr struct {
    const char* name;
    int (*run)(int, char**);
  } kExamples[] = {
      {"healthy_training", example_healthy_training},
      {"skipped_collective", example_skipped_collective},
      {"stuck_data_loader", example_stuck_data_loader},
      {"uneven_last_batch", example_uneven_last_batch},
      {"rank0_logging", example_rank0_logging},
      {"bucket_sizes", example_bucket_sizes},
      {"wrong_dtype", example_wrong_dtype},
      {"exception", example_exception},
      {"killed", example_killed},
      {"frozen", example_frozen},
      {"stuck_stream", example_stuck_stream},
      {"wrong_world_size", example_wrong_world_size},
      {"missing_at_start", example_missing_at_start},
      {"straggler", example_straggler},
  };
  for (const auto& example : kExamples)
    if (argc > 1 && std::strcmp(argv[1], example.name) == 0) return example.run(argc - 1, argv + 1);
  std::fprintf(stderr, "demo_job: no such example\n");
  return 2;
}
