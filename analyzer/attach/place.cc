#include "analyzer/attach/place.h"

#include <absl/strings/match.h>
#include <fmt/core.h>
#include <re2/re2.h>

#include <algorithm>

#include "analyzer/stacks/lines/lines.h"
#include "analyzer/stacks/show/fold.h"
#include "watchdog/cpython/origin.h"

namespace ncclwatch::analyzer::attach {
namespace {

using stacks::Frame;
using stacks::Thread;

bool IsToOne(std::string_view call) {
  static const RE2 pattern(R"((?i)(send|recv|wait|probe|test)(all|any|some)?$)");
  return RE2::PartialMatch(re2::StringPiece(call.data(), call.size()), pattern);
}

// The call of a library that the program, or its framework, has made: the outermost one.
Wait NativeWait(const Thread& thread) {
  static const RE2 call(R"(^P?(MPI_[A-Z][a-z]\w*|nccl[A-Z]\w+)$)");
  static const RE2 fortran(R"(^p?mpi_([a-z]\w+?)_{1,2}$)");
  static const RE2 jumped_to(R"(^ompi_mpi_(init|finalize)$)");  // of MPI_Init and MPI_Finalize no frame is left
  static const RE2 device(R"(^(?:cuda|cu)(?:Stream|Event|Ctx|Device)Synchronize(?:_v2)?$)");
  static const RE2 gloo(
      R"(^gloo::(?:\(anonymous namespace\)::)?(allreduce|broadcast|allgatherv?|barrier|reduce|scatter|gatherv?|alltoallv?|reduce_scatter)\b)");
  static const RE2 work(R"(^c10d::(?:\w+::)*\w*(?:Work\w*::wait|::waitWork))");
  Wait wait;
  for (std::size_t i = 0; i < thread.frames.size(); ++i) {
    const Frame& frame = thread.frames[i];
    std::string name;
    if (frame.kind != Frame::Kind::kNative) continue;
    const std::string& function = frame.function;
    if (RE2::PartialMatch(function, call, &name))
      wait = {name, IsToOne(name), false, -1, 0, i};
    else if (RE2::PartialMatch(function, fortran, &name))
      wait = {"MPI_" + name, IsToOne(name), false, -1, 0, i};
    else if (RE2::FullMatch(function, jumped_to, &name))
      wait = {name == "init" ? "MPI_Init" : "MPI_Finalize", false, false, -1, 0, i};
    else if (RE2::FullMatch(function, device))
      wait = {function, false, true, -1, 0, i};
    else if (RE2::PartialMatch(function, gloo, &name))
      wait = {name, false, false, -1, 0, i};
    else if (wait.in.empty() && RE2::PartialMatch(function, work))
      wait = {"Work.wait", false, false, -1, 0, i};
  }
  if (IsJoining(wait.in) || absl::StrContains(wait.in, "Finalize")) wait.to_one = false;
  if (!wait.in.empty()) wait.call = &thread.frames[wait.frame];
  return wait;
}

Wait PythonCall(const Frame& frame, std::size_t at) {
  Wait wait;
  wait.in = frame.function;
  wait.to_one = absl::StrContains(frame.function, "send") || absl::StrContains(frame.function, "recv");
  wait.frame = at;
  wait.group = frame.group;
  for (const Frame::Variable& one : frame.numbers)
    if (wait.to_one && (one.name == "src" || one.name == "dst")) wait.peer = static_cast<int>(one.value);
  return wait;
}

// torch.distributed's function that the program called.
Wait PythonWait(const Thread& thread) {
  Wait wait;
  for (std::size_t i = 0; i < thread.frames.size(); ++i) {
    const Frame& frame = thread.frames[i];
    if (frame.kind != Frame::Kind::kPython) continue;
    const bool of_torch =
        absl::StrContains(frame.file, "/torch/distributed/") || absl::StrContains(frame.file, "/mpi4py/");
    if (!of_torch) {
      if (!wait.in.empty() || !absl::StrContains(frame.file, "/torch/")) break;
      continue;
    }
    if (!absl::EndsWith(frame.file, "/c10d_logger.py") && !absl::EndsWith(frame.file, "/run.py"))
      wait = PythonCall(frame, i);
  }
  return wait;
}

// The first frame outside of the library's call.
std::size_t BehindCall(const Thread& thread) {
  const Wait wait = NativeWait(thread);
  return wait.in.empty() ? 0 : wait.frame + 1;
}

}  // namespace

bool IsOfMpi(const std::string& call) { return absl::StartsWith(call, "MPI_"); }

bool IsJoining(const std::string& call) { return absl::StrContains(call, "Init") || absl::StrContains(call, "init"); }

Wait WaitOf(const stacks::ProcessStacks& process) {
  for (const Thread& thread : process.threads) {
    if (thread.tid != process.matters) continue;
    if (Wait python = PythonWait(thread); !python.in.empty()) return python;
    if (Wait native = NativeWait(thread); !native.in.empty()) return native;
  }
  for (const Thread& thread : process.threads)
    if (Wait native = NativeWait(thread); thread.tid != process.matters && !native.in.empty() && !native.of_device)
      return native;
  return {};
}

const Thread* MainOf(const stacks::ProcessStacks& process) {
  const auto main = std::find_if(process.threads.begin(), process.threads.end(),
                                 [&](const Thread& thread) { return thread.tid == process.matters; });
  return main == process.threads.end() ? nullptr : &*main;
}

std::string PythonSite(const Thread& thread) {
  std::string any;
  for (const stacks::Line& line : stacks::Fold(thread.frames)) {
    if (!line.python || line.noise) continue;
    if (line.origin == stacks::Origin::kProgram) return line.text;
    if (any.empty()) any = line.text;
  }
  return any;
}

bool IsOfProgram(const Frame& frame) {
  return frame.kind == Frame::Kind::kNative && stacks::GroupOf(frame) == stacks::Group::kNone &&
         !absl::StartsWith(frame.module, "libmpi") && !absl::StartsWith(frame.module, "libopen-") &&
         !absl::StartsWith(frame.module, "libmpich") && !absl::StartsWith(frame.module, "mca_") &&
         !absl::StartsWith(frame.module, "libuc") && !absl::StartsWith(frame.module, "libfabric");
}

const Frame* CallerOf(const Thread& thread) {
  for (std::size_t i = BehindCall(thread); i < thread.frames.size(); ++i)
    if (IsOfProgram(thread.frames[i])) return &thread.frames[i];
  return nullptr;
}

const Frame* HostFunctionOf(const stacks::ProcessStacks& process) {
  const auto is_cuda = [](const Frame& frame) {
    return absl::StartsWith(frame.module, "libcuda.so") || absl::StartsWith(frame.module, "libcudart");
  };
  for (const Thread& thread : process.threads)
    for (std::size_t i = 0; i + 1 < thread.frames.size() && thread.tid != process.matters; ++i)
      if (IsOfProgram(thread.frames[i]) && is_cuda(thread.frames[i + 1])) return &thread.frames[i];
  return nullptr;
}

std::string SiteText(const Frame& frame, stacks::SourceLines* lines) {
  const auto line = lines->At(frame.module_path, frame.module_address, INT64_MAX);
  if (!line || line->line == 0) return stacks::ShortText(frame);
  return fmt::format("{} ({}:{})", line->function.empty() ? frame.function : line->function,
                     line->file.substr(line->file.rfind('/') + 1), line->line);
}

std::vector<Spot> PathOf(const Thread& thread) {
  std::vector<Spot> python, native;
  const std::size_t behind = BehindCall(thread);
  for (std::size_t i = 0; i < thread.frames.size(); ++i) {
    const Frame& frame = thread.frames[i];
    if (frame.kind == Frame::Kind::kPython && cpython::OriginOf(frame.file) == cpython::Origin::kProgram)
      python.push_back({frame.file + ":" + frame.function, frame.line});
    else if (i >= behind && IsOfProgram(frame) && !frame.guessed)
      native.push_back({frame.module_path + ":" + frame.function, static_cast<std::int64_t>(frame.module_address)});
  }
  std::vector<Spot>& path = python.empty() ? native : python;
  std::reverse(path.begin(), path.end());
  return std::move(path);
}

}  // namespace ncclwatch::analyzer::attach
