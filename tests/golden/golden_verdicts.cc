// golden_verdicts [--update] FOLDER: one job for each kind, written as black boxes, read back, judged, and compared
// with FOLDER/<case>.json and FOLDER/<case>.txt.
#include <stdlib.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/job_builder.h"
#include "watchdog/reader/box.h"

namespace ncclwatch::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kWorld = Job::kWorld;

Job Training(int ranks, int steps = 1042) {
  Job job(ranks);
  for (int i = 0; i < steps; ++i) {
    job.Pass(0.02);
    job.Done(Range(0, ranks), kWorld, AllReduce(4096, kBfloat16));
  }
  job.Pass(0.02);
  return job;
}

Job Healthy() { return Training(4, 20); }

Job DeadRank() {
  Job job = Training(4);
  job.Call({0, 1, 3}, kWorld, AllReduce(4096, kBfloat16));
  job.Pass(0.4);
  job.Die(2, Job::Exit{SIGKILL, -1, true});
  job.Pass(0.03);
  return job;
}

Job EarlyExit() {
  Job job = Training(4);
  job.Die(3, Job::Status(0));
  job.Pass(0.2);
  job.Call({0, 1, 2}, kWorld, AllReduce(4096, kBfloat16));
  job.Pass(0.1);
  return job;
}

Job MissingParticipant() {
  Job job = Training(4);
  job.Call({0, 1, 3}, kWorld, AllReduce(4096, kBfloat16));
  job.Pass(12.4);
  return job;
}

Job OrderMismatch() {
  Job job = Training(4);
  job.Call({0, 1, 3}, kWorld, AllReduce(4096, kBfloat16));
  Spec gather = AllGather(1024, kBfloat16);
  gather.site = 0x401b00;
  job.Call({2}, kWorld, gather);
  job.Pass(0.15);
  return job;
}

Job ArgumentMismatch() {
  Job job = Training(8);
  job.Call({1, 2, 3, 4, 5, 6, 7}, kWorld, AllReduce(4096, kBfloat16));
  job.Call({0}, kWorld, AllReduce(1, kFloat32));
  job.Pass(0.15);
  return job;
}

Job ZeroCount() {
  Job job = Training(2);
  job.Call({0}, kWorld, AllReduce(4096, kBfloat16));
  job.Call({1}, kWorld, AllReduce(0, kBfloat16));
  job.Pass(0.15);
  return job;
}

Job InitializationHang() {
  Job job(4, false);
  job.Joining(4, {0, 1, 3});
  job.Unseen(2);
  job.Pass(12);
  job.Unborn(2, 5555);
  return job;
}

Job WrongWorldSize() {
  Job job(4, false);
  const int comm = job.Joining(4, {0, 1, 2, 3});
  job.Entry(3, comm).size = 5;
  job.Pass(0.3);
  return job;
}

Job FrozenProcess() {
  Job job = Training(4);
  job.Silence(1);
  job.Call({0, 2, 3}, kWorld, AllReduce(4096, kBfloat16));
  job.Pass(3);
  job.Observe(1, format::Observed::kStopped);
  job.Pass(60);
  return job;
}

Job Deadlock() {
  Job job = Training(2, 3);
  const int other = job.Comm({0, 1}, "tp", kWorld);
  job.Call({0}, kWorld, AllReduce(10));
  job.Call({0}, other, AllReduce(20));
  job.Call({1}, other, AllReduce(20));
  job.Call({1}, kWorld, AllReduce(10));
  job.Pass(11);
  return job;
}

Job StallThenDeath() {
  Job job = Training(4, 10);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.Pass(65);
  job.Die(3, Job::Signal(SIGABRT));
  job.Pass(0.05);
  return job;
}

struct Case {
  const char* name;
  Job (*make)();
};
constexpr Case kCases[] = {
    {"healthy", Healthy},
    {"dead_rank", DeadRank},
    {"early_exit", EarlyExit},
    {"missing_participant", MissingParticipant},
    {"order_mismatch", OrderMismatch},
    {"argument_mismatch", ArgumentMismatch},
    {"argument_mismatch_zero_count", ZeroCount},
    {"initialization_hang", InitializationHang},
    {"initialization_hang_world_size", WrongWorldSize},
    {"frozen_process", FrozenProcess},
    {"deadlock", Deadlock},
    {"missing_participant_then_death", StallThenDeath},
};

std::string Slurp(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool Check(const std::string& path, const std::string& got, bool update) {
  if (update) {
    std::ofstream(path, std::ios::binary) << got;
    return true;
  }
  if (Slurp(path) == got) return true;
  std::printf("%s differs; now it is:\n%s\n", path.c_str(), got.c_str());
  return false;
}

bool RunCase(const Case& one, const std::string& folder, bool update) {
  char directory[] = "/tmp/ncclwatch-golden-XXXXXX";
  if (::mkdtemp(directory) == nullptr) return false;
  one.make().WriteBoxes(directory);
  const reader::RunImage run = reader::ReadRun({directory});
  fs::remove_all(directory);
  const diagnosis::Diagnosis diagnosis = diagnosis::Diagnose(diagnosis::FromBoxes(run.boxes));
  const std::string base = folder + "/" + one.name;
  const bool json = Check(base + ".json", diagnosis::ToJson(diagnosis), update);
  return Check(base + ".txt", diagnosis::ToText(diagnosis), update) && json && run.failures.empty();
}

}  // namespace
}  // namespace ncclwatch::testing

int main(int argc, char** argv) {
  const bool update = argc == 3 && std::string(argv[1]) == "--update";
  if (argc != 2 && !update) {
    std::fprintf(stderr, "usage: golden_verdicts [--update] FOLDER\n");
    return 2;
  }
  int failed = 0;
  for (const auto& one : ncclwatch::testing::kCases) {
    if (ncclwatch::testing::RunCase(one, argv[argc - 1], update)) continue;
    std::printf("failed: %s\n", one.name);
    ++failed;
  }
  return failed == 0 ? 0 : 1;
}
