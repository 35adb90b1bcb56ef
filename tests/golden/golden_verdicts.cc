// golden_verdicts [--update] FOLDER: one job for each kind, written as black boxes, read back, judged, and compared
// with FOLDER/<case>.json and FOLDER/<case>.txt.
#include <stdlib.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/diagnose.h"
#include "core/reader/box.h"
#include "core/report/render.h"
#include "core/report/where.h"
#include "core/view/from_boxes.h"
#include "tests/unit/support/job_builder.h"

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
  job.Die(2, Job::Signal(SIGKILL));
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
  job.Boxless(2, 5555);
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

// Two tensor-parallel pairs; one rank leaves out the second call of a step on its pair and goes on with the gradients.
Job StepMismatch() {
  Job job(4);
  const int pairs[] = {job.Comm({0, 1}, "tensor", kWorld), job.Comm({2, 3}, "tensor", kWorld)};
  const auto tensor = [&](int pair, const std::vector<int>& ranks, std::uint64_t count) {
    job.Done(ranks, pairs[pair], AllReduce(count, kBfloat16));
  };
  for (int step = 0; step < 40; ++step) {
    job.Pass(0.2);
    for (const std::uint64_t count : {4096, 8192}) tensor(0, {0, 1}, count), tensor(1, {2, 3}, count);
    for (const std::uint64_t count : {60000, 1}) job.Done(Range(0, 4), kWorld, AllReduce(count));
  }
  job.Pass(0.2);
  tensor(0, {0, 1}, 4096), tensor(1, {2, 3}, 4096), tensor(1, {2, 3}, 8192);
  job.Call({0}, pairs[0], AllReduce(8192, kBfloat16));
  for (const std::uint64_t count : {60000, 1}) job.Call(Range(0, 4), kWorld, AllReduce(count));
  job.Pass(12.4);
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

// Three of four GPUs have come to the call; or all.
Job Begun(const std::vector<int>& ranks) {
  Job job(4);
  job.Starts();
  for (int i = 0; i < 1042; ++i) {
    job.Pass(0.02);
    job.Done(Range(0, 4), kWorld, AllReduce(4096, kBfloat16));
  }
  job.Pass(0.02);
  job.Call(Range(0, 4), kWorld, AllReduce(4096, kBfloat16));
  job.Begin(ranks, kWorld);
  job.Pass(12.4);
  return job;
}

Job DeviceStall() { return Begun({0, 1, 3}); }

Job TransportStall() { return Begun({0, 1, 2, 3}); }

Job TransportStallByEnds() {
  Job job = Training(4);
  job.Call(Range(0, 4), kWorld, AllReduce(4096, kBfloat16));
  job.Pass(12.4);
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

// Three of four wait for rank 2.
Job WithoutRank2() {
  Job job = Training(4);
  job.Call({0, 1, 3}, kWorld, AllReduce(4096, kBfloat16));
  job.Pass(0.2);
  return job;
}

void Exit(Job* job, int status) {
  job->Box(2).state = format::ProcessState::kExiting;
  job->Box(2).last_words = {true, status, 0, job->now_ns(), ""};
  job->Pass(0.02);
  job->Die(2, Job::Status(status));
  job->Pass(0.01);
}

Job DeadRankCrash() {
  Job job = WithoutRank2();
  reader::BoxImage& box = job.Box(2);
  box.words.catching = true;
  box.words.signals.push_back({job.now_ns(),
                               0x8,
                               0x7ffd0000,
                               SIGSEGV,
                               1,
                               0,
                               box.pid,
                               0,
                               "train",
                               {{0x401234, 0x1234, "/app/train"}, {0x401b00, 0x1b00, "/app/train"}}});
  box.state = format::ProcessState::kCrashing;
  box.last_words = {true, 0, SIGSEGV, job.now_ns(), ""};
  job.Pass(0.1);
  job.Die(2, Job::Exit{SIGSEGV, -1, false});
  job.Pass(0.01);
  return job;
}

Job DeadRankException() {
  Job job = WithoutRank2();
  job.Box(2).words.exceptions.push_back({job.now_ns(), format::Language::kPython, 1, "ValueError",
                                         "this rank's batch is damaged", "/home/user/train.py:57 in load_batch"});
  Exit(&job, 1);
  return job;
}

void Refuse(Job* job) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  job->Box(2).words.allocations.push_back({job->now_ns(), 0, 2 * kGiB, kGiB / 4, 80 * kGiB, 1, 2, 2, 1});
}

Job OutOfMemory() {
  Job job = WithoutRank2();
  Refuse(&job);
  job.Box(2).words.exceptions.push_back({job.now_ns(), format::Language::kPython, 1, "torch.OutOfMemoryError",
                                         "CUDA out of memory. Tried to allocate 2.00 GiB.",
                                         "/home/user/model.py:112 in forward"});
  Exit(&job, 1);
  return job;
}

Job OutOfMemoryAlive() {
  Job job = WithoutRank2();
  Refuse(&job);
  job.Pass(60);
  return job;
}

Job OutOfMemoryKilled() {
  Job job = WithoutRank2();
  job.Box(2).words.memory = {job.now_ns(), std::uint64_t{60} << 30, std::uint64_t{512} << 20};
  job.Pass(0.03);
  job.Die(2, Job::Exit{SIGKILL, -1, true});
  job.Pass(0.01);
  return job;
}

Job LibraryError() {
  Job job = WithoutRank2();
  job.Box(2).words.errors.push_back({job.now_ns(), ~std::uint64_t{0}, functions::Function::ncclAllReduce,
                                     job.Entry(2, kWorld).index, 0, 3, 1, false,
                                     "NET/IB : Got completion from peer with status=12 opcode=0 len=0 vendor err 129"});
  Exit(&job, 1);
  return job;
}

// Of rank 2 of a job of four.
std::string Stacks(const Job& job) {
  const reader::BoxImage box = job.Snapshot().boxes[2];
  return "ncclwatch.verdict_stacks/1\nverdict_at_ns " + std::to_string(job.now_ns()) + "\nprocess pid " +
         std::to_string(box.pid) + " start " + std::to_string(box.start_time) + " rank 2 host " + box.host +
         " at_ns 1\nstate thread 4002 is sleeping in poll(fd 5)\nwhere next_batch (train.py:57) in poll (libc.so.6)\n"
         "where main (train.py:91)\n";
}

struct Case {
  const char* name;
  Job (*make)();
  std::string (*stacks)(const Job&) = nullptr;
};
constexpr Case kCases[] = {
    {"healthy", Healthy},
    {"dead_rank", DeadRank},
    {"dead_rank_crash", DeadRankCrash},
    {"dead_rank_exception", DeadRankException},
    {"out_of_memory", OutOfMemory},
    {"out_of_memory_alive", OutOfMemoryAlive},
    {"out_of_memory_killed", OutOfMemoryKilled},
    {"library_error", LibraryError},
    {"early_exit", EarlyExit},
    {"missing_participant", MissingParticipant},
    {"missing_participant_with_stacks", MissingParticipant, Stacks},
    {"order_mismatch", OrderMismatch},
    {"argument_mismatch", ArgumentMismatch},
    {"argument_mismatch_zero_count", ZeroCount},
    {"initialization_hang", InitializationHang},
    {"initialization_hang_world_size", WrongWorldSize},
    {"frozen_process", FrozenProcess},
    {"deadlock", Deadlock},
    {"device_stall", DeviceStall},
    {"transport_stall", TransportStall},
    {"transport_stall_by_ends", TransportStallByEnds},
    {"step_mismatch", StepMismatch},
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
  const Job job = one.make();
  job.WriteBoxes(directory);
  if (one.stacks) {
    fs::create_directory(std::string(directory) + "/stacks");
    std::ofstream(std::string(directory) + "/stacks/verdict.txt") << one.stacks(job);
  }
  const reader::RunImage run = reader::ReadRun({directory});
  fs::remove_all(directory);
  diagnosis::Snapshot snapshot = diagnosis::FromBoxes(run.boxes);
  diagnosis::UseStacks(run.stacks, &snapshot);
  const diagnosis::Diagnosis diagnosis = diagnosis::Diagnose(snapshot);
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
