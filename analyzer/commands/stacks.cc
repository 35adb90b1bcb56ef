// `ncclwatch stacks`: where every thread of a process stands, native and Python frames together.
#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_split.h>
#include <unistd.h>

#include <cstdio>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/crash_frames.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/name_communicators.h"
#include "analyzer/jobs/observe.h"
#include "analyzer/meanwhile/sampling.h"
#include "analyzer/stacks/dump.h"
#include "analyzer/stacks/sample.h"
#include "analyzer/stacks/show/text.h"
#include "core/reader/file.h"
#include "watchdog/act/files.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kStacksHelp[] =
    "Show where every thread of these processes, or of a live job's processes on this machine, is: native and Python\n"
    "frames together, what the threads wait for, and what each process as a whole is doing.\n\n"
    "Reads from outside. Sleeping threads are not touched. Running threads are stopped for some microseconds each, "
    "and\n"
    "never in a system call that would return EINTR. Frames that several ranks share are printed once.\n"
    "Exit status: 0 done, 2 usage, 3 if any of the processes could not be read.";

struct StacksRequest {
  std::vector<std::string> words, threads, ranks, started, crashes, samples, meanwhile, unnamed;
  std::string into;
  double limit_s = 2.5;
  bool each = false, full = false, json = false, keep_running = false;
};

void Declare(Options* options, StacksRequest* request) {
  options->add_option("PID|DIR", request->words, "processes and run directories (default: the newest run directory)")
      ->type_name("");
  options->add_flag("--each", request->each, "print every process and thread by itself, not merged");
  options->add_flag("--full", request->full, "with --each: show every frame, fold nothing");
  options->add_option("--into", request->into, "write DIR/<pid>.txt and DIR/merged.txt instead of printing")
      ->type_name("DIR");
  options->add_option("--thread", request->threads, "the thread of a process that matters (default: the main one)")
      ->type_name("PID:TID")
      ->group(kInternal)
      ->allow_extra_args(false);
  options->add_option("--rank", request->ranks, "the rank of a process, if its environment does not contain it")
      ->type_name("PID:RANK")
      ->group(kInternal)
      ->allow_extra_args(false);
  options
      ->add_option("--started", request->started,
                   "start time of a process (field 22 of /proc/PID/stat): others of its pid are skipped")
      ->type_name("PID:TICKS")
      ->group(kInternal)
      ->allow_extra_args(false);
  options
      ->add_option("--crash", request->crashes,
                   "unwind the sample that a dead process left in this black box, and complete the box")
      ->type_name("BOX")
      ->group(kInternal)
      ->allow_extra_args(false);
  options
      ->add_option("--names", request->unnamed,
                   "write the names of the process's groups into this black box, as labels of its communicators")
      ->type_name("BOX")
      ->group(kInternal)
      ->allow_extra_args(false);
  options
      ->add_option("--sample", request->samples,
                   "with --into: unwind a sample that a process wrote of itself, and remove the file")
      ->type_name("FILE")
      ->group(kInternal)
      ->allow_extra_args(false);
  options
      ->add_option("--meanwhile", request->meanwhile,
                   "with --into and one run directory: sample a process that is late by so many ns")
      ->type_name("PID:NS")
      ->group(kInternal)
      ->allow_extra_args(false);
  options->add_option("--limit", request->limit_s, "time limit in seconds (default: 2.5)")
      ->type_name("S")
      ->check(CLI::Range(0.01, 3600.0));
  options->add_flag("--no-stop", request->keep_running, "stop no thread: running threads are left out");
  options->add_flag("--json", request->json, "print as JSON (schema ncclwatch.stacks/1)");
}

// "PID:NUMBER", each; none if one of them is something else.
template <typename Integer = int>
std::optional<absl::flat_hash_map<int, Integer>> Pairs(const std::vector<std::string>& words) {
  absl::flat_hash_map<int, Integer> pairs;
  for (const std::string& word : words) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(word, absl::MaxSplits(':', 1));
    int pid = 0;
    Integer value = 0;
    if (!ParseNumber(parts.first, &pid) || !ParseNumber(parts.second, &value)) return std::nullopt;
    pairs[pid] = value;
  }
  return pairs;
}

template <typename Integer>
Integer ValueOr(const absl::flat_hash_map<int, Integer>& values, int pid, Integer otherwise = 0) {
  const auto found = values.find(pid);
  return found == values.end() ? otherwise : found->second;
}

// The live processes of a run directory that are on this machine; the thread of the last recorded call matters.
bool AddJob(const Command& self, const std::string& word, std::vector<stacks::Target>* targets) {
  const auto path = LocateOne(word);
  if (!path.ok()) return Unreadable(self, path.status()) == kDone;
  const reader::RunImage run = ReadJob({*path}, reader::Calls::kForVerdict);
  SayFailures(run.failures);
  int others = 0, added = 0;
  for (const reader::BoxImage& box : run.boxes) {
    if (!IsHere(box)) {
      ++others;
    } else if (ProcessThere(box.pid, box.start_time)) {
      const int thread = box.calls.empty() ? 0 : static_cast<int>(box.calls.back().thread);
      targets->push_back({static_cast<int>(box.pid), thread, box.rank, box.start_time});
      ++added;
    }
  }
  if (others > 0) Complain(self.name, "{} processes are on other machines or in containers", others);
  if (added == 0) Complain(self.name, "{}: no process of this job lives here", *path);
  return run.failures.empty() && added > 0;
}

// False if something that was asked for is not there; what is, is in `targets`.
bool FindTargets(const Command& self, const StacksRequest& request, std::vector<stacks::Target>* targets) {
  if (request.words.empty()) return AddJob(self, "", targets);
  bool whole = true;
  for (const std::string& word : request.words) {
    if (int pid = 0; ParseNumber(word, &pid))
      targets->push_back({pid, 0, -1, 0});
    else
      whole &= AddJob(self, word, targets);
  }
  return whole;
}

// Empty, or what could not be written.
std::string WriteInto(const std::string& folder, const std::vector<stacks::ProcessStacks>& processes) {
  std::string error = act::MakeDirectories(folder);
  const auto into = descriptors::Directory::Named(folder);
  for (const stacks::ProcessStacks& process : processes)
    if (error.empty()) error = act::WriteFile(into, fmt::format("{}.txt", process.pid), stacks::FileText(process));
  return error.empty() ? act::WriteFile(into, "merged.txt", stacks::MergedText(processes)) : error;
}

void Show(const StacksRequest& request, const std::vector<stacks::ProcessStacks>& processes) {
  if (request.json) {
    WriteOut(stacks::JsonText(processes));
  } else if (request.each || request.full) {
    for (const stacks::ProcessStacks& process : processes) WriteOut(stacks::ProcessText(process, request.full));
  } else {
    WriteOut(stacks::MergedText(processes));
  }
}

// Completes each of the boxes.
int Complete(const Command& self, const std::vector<std::string>& boxes, std::string (*complete)(const std::string&)) {
  int status = kDone;
  for (const std::string& box : boxes) {
    const std::string reason = complete(box);
    if (reason.empty()) continue;
    Complain(self.name, "{}", reason);
    status = kUnreadable;
  }
  return status;
}

std::optional<stacks::ProcessStacks> UnwindSample(const std::string& path, std::string* reason) {
  const reader::File file(path);
  *reason = file.reason();
  if (!reason->empty()) return std::nullopt;
  std::vector<std::byte> bytes(std::min<std::uint64_t>(file.bytes(), format::kMostSampleBytes));
  bytes.resize(file.ReadAt(0, bytes.data(), bytes.size()));
  const auto process = stacks::SampledProcess::Parse(std::move(bytes), reason);
  if (!process) return std::nullopt;
  return stacks::ReadSample(process.get());
}

int UnwindSamples(const Command& self, const StacksRequest& request) {
  std::vector<stacks::ProcessStacks> processes;
  int status = kDone;
  for (const std::string& path : request.samples) {
    std::string reason;
    auto process = UnwindSample(path, &reason);
    unlink(path.c_str());
    if (process) {
      processes.push_back(std::move(*process));
      continue;
    }
    Complain(self.name, "{}: {}", path, reason);
    status = kUnreadable;
  }
  const std::string error = WriteInto(request.into, processes);
  return error.empty() ? status : Unreadable(self, absl::UnknownError(error));
}

// For the leader, which suspects that these processes hold the others up.
int SampleMeanwhile(const Command& self, const StacksRequest& request, const std::vector<meanwhile::Target>& targets) {
  const auto limit = std::chrono::duration<double>(request.limit_s);
  const std::vector<reader::Meanwhile> all =
      meanwhile::Sample(request.words.front(), targets, std::chrono::duration_cast<std::chrono::nanoseconds>(limit));
  std::string error = act::MakeDirectories(request.into);
  const auto into = descriptors::Directory::Named(request.into);
  if (error.empty()) error = act::WriteFile(into, reader::kMeanwhileFile, reader::Format(all));
  return error.empty() ? kDone : Unreadable(self, absl::UnknownError(error));
}

int Finish(const Command& self, const StacksRequest& request, const stacks::Dump& dump, bool whole) {
  if (!request.into.empty()) {
    if (const std::string error = WriteInto(request.into, dump.processes); !error.empty())
      return Unreadable(self, absl::UnknownError(error));
  } else {
    Show(request, dump.processes);
  }
  for (const stacks::ProcessStacks& process : dump.processes) {
    if (process.trouble.empty()) continue;
    whole = false;
    Complain(self.name, "pid {}: {}", process.pid, process.trouble);
  }
  return whole ? kDone : kUnreadable;
}

}  // namespace

int Stacks(const Command& self, const Arguments& arguments) {
  Options options(self, kStacksHelp);
  StacksRequest request;
  Declare(&options, &request);
  if (const auto status = options.Read(arguments)) return *status;
  const auto threads = Pairs(request.threads), ranks = Pairs(request.ranks);
  const auto started = Pairs<std::uint64_t>(request.started);
  const auto late = Pairs<std::int64_t>(request.meanwhile);
  if (!threads || !ranks || !started)
    return UsageError(self, "--thread, --rank and --started take a pid, a colon and a number");
  if (!request.samples.empty() && request.into.empty()) return UsageError(self, "--sample needs --into");
  if (!late) return UsageError(self, "--meanwhile takes a pid, a colon and nanoseconds");
  if (!late->empty() && (request.into.empty() || request.words.size() != 1))
    return UsageError(self, "--meanwhile needs --into and one run directory");
  if (!request.crashes.empty()) return Complete(self, request.crashes, &KeepCrashFrames);
  if (!request.unnamed.empty()) return Complete(self, request.unnamed, &NameCommunicators);
  if (!request.samples.empty()) return UnwindSamples(self, request);
  if (!late->empty()) {
    std::vector<meanwhile::Target> subjects;
    for (const auto& [pid, late_ns] : *late) subjects.push_back({pid, ValueOr(*started, pid), late_ns});
    return SampleMeanwhile(self, request, subjects);
  }
  std::vector<stacks::Target> targets;
  const bool whole = FindTargets(self, request, &targets);
  for (stacks::Target& target : targets) {
    target.matters = ValueOr(*threads, target.pid, target.matters);
    target.rank = ValueOr(*ranks, target.pid, target.rank);
    target.start_time = ValueOr(*started, target.pid, target.start_time);
  }
  if (targets.empty()) return kUnreadable;

  stacks::DumpOptions how;
  how.limit = std::chrono::milliseconds(static_cast<std::int64_t>(request.limit_s * 1000));
  how.each_limit = std::min(how.each_limit, how.limit);
  how.stop = !request.keep_running;
  const stacks::Dump dump = stacks::ReadAll(targets, how);
  const int status = Finish(self, request, dump, whole);
  if (dump.stuck) {  // a thread of ours still waits in the kernel: what exit() tears down it may be using
    std::fflush(nullptr);
    _exit(status);
  }
  return status;
}

}  // namespace ncclwatch::analyzer
