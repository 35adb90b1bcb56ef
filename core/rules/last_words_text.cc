// How last words are told.
#include <signal.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/model/text.h"
#include "core/rules/last_words.h"
#include "core/view/process_end.h"
#include "ncclwatch/format/allocation.h"
#include "ncclwatch/format/sample.h"

namespace ncclwatch::diagnosis {
namespace {

using format::Language;
using reader::Exception;
using reader::FailedAllocation;
using reader::FatalSignal;
using reader::NcclError;

std::int64_t SeenGoneAt(const Process& process) { return process.outcome.observed_ns - process.shift_ns; }

std::string Quoted(const std::string& text) {
  constexpr std::size_t kMost = 200;
  std::string line = text.size() <= kMost ? text : text.substr(0, kMost) + "...";
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

std::string ExceptionName(const Exception& exception) {
  if (exception.type.empty()) return "std::terminate() without an exception";
  const std::string text = "uncaught " + exception.type;
  return exception.message.empty() ? text : text + ": " + Quoted(exception.message);
}

// "train.py:57 in step" of "/app/train.py:57 in step".
std::string ShortPlace(const std::string& place) {
  const std::size_t folder = place.rfind('/', place.rfind(':'));
  return place.substr(folder == std::string::npos ? 0 : folder + 1);
}

std::string ExceptionText(const Exception& exception) {
  return ExceptionName(exception) + (exception.place.empty() ? "" : " (" + ShortPlace(exception.place) + ")");
}

std::string CodeText(const FatalSignal& signal) {
  if (signal.code == 0 || signal.code == -1 || signal.code == -6)
    return signal.sender == 0 ? "sent" : "sent by pid " + std::to_string(signal.sender);
  const std::string at = " at " + Hex(signal.fault_address);
  if ((signal.flags & format::kSignalOverflow) != 0) return "stack overflow" + at;
  if (signal.code == 0x80) return "raised by the processor, without an address";
  if (signal.signal == SIGSEGV) {
    constexpr std::uint64_t kFirstPage = 4096;
    if (signal.code == SEGV_MAPERR && signal.fault_address < kFirstPage) return "through a null pointer," + at;
    if (signal.code == SEGV_MAPERR) return "nothing is mapped" + at;
    if (signal.code == SEGV_ACCERR) return "no permission for the memory" + at;
  }
  if (signal.signal == SIGBUS && signal.code == BUS_ADRERR)
    return "the file behind the memory" + at + " is shorter, or its file system is full";
  if (signal.signal == SIGFPE && signal.code == FPE_INTDIV) return "division by zero";
  return "code " + std::to_string(signal.code) + at;
}

std::string FileOf(const reader::Frame& frame) { return frame.module.substr(frame.module.rfind('/') + 1); }

bool IsOurs(const reader::Frame& frame) { return FileOf(frame).starts_with("libncclwatch"); }

// Where the application was: past the C library's own ways of ending, and ours to hear of them.
const reader::Frame* OwnFrame(const FatalSignal& signal) {
  for (const reader::Frame& frame : signal.frames) {
    const std::string file = FileOf(frame);
    if (IsOurs(frame)) continue;
    const std::array<std::string_view, 6> ending = {"libc.so",    "libc-2", "libstdc++.so",
                                                    "libpthread", "libc++", "libgcc_s"};
    if (std::none_of(ending.begin(), ending.end(), [&](std::string_view name) { return file.starts_with(name); }))
      return &frame;
  }
  return signal.frames.empty() ? nullptr : &signal.frames.front();
}

std::string SignalLine(const FatalSignal& signal) {
  std::string line = SignalName(signal.signal) + " (" + CodeText(signal) + ") in thread " +
                     std::to_string(signal.thread) + " \"" + signal.thread_name + "\"";
  constexpr std::size_t kEnough = 12;
  std::vector<std::string> frames;
  for (const reader::Frame& frame : signal.frames)
    if (frames.size() < kEnough && !IsOurs(frame)) frames.push_back(FrameText(frame));
  if (!frames.empty()) line += ", at " + Join(frames, " < ") + (signal.frames.size() > kEnough ? " < ..." : "");
  constexpr std::uint32_t kSampled = format::kSignalSampled, kUnwound = format::kSignalUnwound;
  if ((signal.flags & (kSampled | kUnwound)) == kSampled)
    line += " (its callers are not unwound yet: `ncclwatch diagnose` does that, on its machine)";
  return line;
}

std::string FiguresText(const FailedAllocation& failed) {
  if (failed.total_bytes == 0) return "";
  return Bytes(failed.free_bytes) + " of " + Bytes(failed.total_bytes) + " were free";
}

// "exited with status 1", "died of SIGABRT (core dumped)".
std::string EndText(const Process& process, const DeathCause& said) {
  const ProcessOutcome& outcome = process.outcome;
  if (outcome.signal == SIGKILL && LeftMpiOpen(*process.box))
    return "was ending with status " + std::to_string(process.box->last_words.exit_status) +
           " when its launcher killed it";
  if (outcome.signal == SIGKILL) return "was killed by SIGKILL";
  if (outcome.signal) {
    std::string text = "died of " + SignalName(*outcome.signal);
    const reader::Frame* const frame = said.signal != nullptr ? OwnFrame(*said.signal) : nullptr;
    if (said.signal != nullptr && (said.signal->flags & format::kSignalOverflow) != 0) text += ", a stack overflow";
    if (frame != nullptr) text += " in " + FrameText(*frame);
    return text + (outcome.core ? " (core dumped)" : "");
  }
  if (outcome.orderly()) return "exited normally (status 0)";
  if (outcome.status) return "exited with status " + std::to_string(*outcome.status);
  return "is gone (how it ended was not seen)";
}

}  // namespace

std::string AllocationText(const FailedAllocation& failed) {
  const functions::AllocationInfo info = functions::Allocation(failed.function);
  std::string text = Bytes(failed.bytes) + (info.on_host ? " of pinned host memory" : " of memory");
  if (failed.device >= 0 && !info.on_host) text += " on device " + std::to_string(failed.device);
  const std::string figures = FiguresText(failed);
  return text + " (" + std::string(info.name) + (figures.empty() ? "" : "; " + figures) + ")";
}

std::string ErrorText(const NcclError& error) {
  std::string text = ResultName(error.result) + " from NCCL";
  if (error.asynchronous)
    text += ", asynchronously";
  else
    text += "'s " + std::string(functions::OpName(error.function));
  if (!error.text.empty()) text += " (" + Quoted(error.text) + ")";
  return text;
}

std::string HowItDied(const Process& process, const DeathCause& said) {
  const ProcessOutcome& outcome = process.outcome;
  if (outcome.what == format::Observed::kDumping) return "is writing a core file and will not come back";
  if (outcome.out_of_memory) return "was killed by the kernel because memory ran out";
  std::string end = EndText(process, said);
  if (AbortOf(*process.box) != nullptr) return "called MPI_Abort and " + end;
  switch (KindOfDeath(process, said)) {
    case Kind::kOutOfMemory:
      if (said.allocation != nullptr) return "could not get " + AllocationText(*said.allocation) + " and " + end;
      return "ran out of memory and " + end + ": " + ExceptionText(*said.exception);
    case Kind::kLibraryError: return "got " + ErrorText(*said.error) + " and " + end;
    default: break;
  }
  if (said.worker()) return end + ": " + ExceptionName(*said.exception);
  if (said.exception != nullptr) return end + ": " + ExceptionText(*said.exception);
  if (said.handled != nullptr) return end + " after " + SignalName(said.handled->signal);
  return end;
}

std::vector<std::string> WordsAsEvidence(const Process& process, const DeathCause& said) {
  std::vector<std::string> lines;
  const auto before = [&](std::int64_t at_ns) {
    if (!process.outcome.gone()) return std::string();
    return ", " + Seconds(std::max<std::int64_t>(0, SeenGoneAt(process) - at_ns)) + " before it was seen gone";
  };
  if (said.allocation != nullptr)
    lines.push_back("it could not get " + AllocationText(*said.allocation) + before(said.allocation->at_ns) +
                    ", and no allocation as large has succeeded since");
  if (said.error != nullptr) lines.push_back("it got " + ErrorText(*said.error) + before(said.error->at_ns));
  if (said.exception != nullptr) {
    lines.push_back("its last words: " + ExceptionName(*said.exception));
    if (!said.exception->place.empty()) lines.back() += ", raised in " + said.exception->place;
    if (said.worker())
      lines.emplace_back(
          "torch raises this when a worker process has ended, wherever the rank is then: that line is not the cause");
  }
  if (said.handled != nullptr) lines.push_back("a handler of its own caught " + SignalLine(*said.handled));
  if (said.signal != nullptr) lines.push_back(SignalLine(*said.signal));
  const ProcessOutcome& outcome = process.outcome;
  if (outcome.out_of_memory)
    lines.push_back("the kernel has counted an out-of-memory kill in its control group or on its host");
  const reader::HostMemory& memory = process.box->words.memory;
  const bool of_the_host = KindOfDeath(process, said) == Kind::kOutOfMemory && said.allocation == nullptr;
  if (memory.at_ns > 0 && (of_the_host || outcome.signal == SIGKILL))
    lines.push_back(
        fmt::format("it had {} resident{}", Bytes(memory.resident_bytes), before(memory.at_ns)) +
        (memory.available_bytes > 0 ? fmt::format("; its host had {} free", Bytes(memory.available_bytes)) : ""));
  if (outcome.signal == SIGSEGV && said.signal == nullptr && process.box->words.catching)
    lines.push_back("no handler could run: most likely its stack overflowed, or its own handler was installed");
  return lines;
}

namespace {

std::string StepAfterError(const NcclError& error) {
  constexpr std::int32_t kSystem = 2, kInvalidArgument = 4, kInvalidUsage = 5, kRemote = 6;  // ncclResult_t
  if (error.result == kInvalidArgument || error.result == kInvalidUsage)
    return "look at the arguments of that call; NCCL_DEBUG=WARN makes NCCL say more";
  if (error.result == kSystem || error.result == kRemote)
    return "look at the connections between the ranks: run with NCCL_DEBUG=WARN NCCL_DEBUG_SUBSYS=INIT,NET";
  return "look at NCCL's own message: run with NCCL_DEBUG=WARN; `dmesg -T | grep -i xid` shows GPU faults";
}

std::vector<std::string> StepsAfterSignal(const Process& process) {
  std::vector<std::string> steps;
  const ProcessOutcome& outcome = process.outcome;
  steps.push_back(outcome.core ? "open its core file (one was written)"
                               : "run it again with core files allowed (`ulimit -c unlimited`)");
  if (outcome.signal == SIGABRT)
    steps.push_back("read the last lines of its standard error: the code that calls abort() says there why");
  return steps;
}

}  // namespace

std::vector<std::string> NextSteps(Kind kind, const Process& process, const DeathCause& said) {
  const ProcessOutcome& outcome = process.outcome;
  if (AbortOf(*process.box) != nullptr)
    return {"find why it called MPI_Abort: look at its standard error and at the place of the call"};
  if (kind == Kind::kLibraryError && said.error != nullptr) return {StepAfterError(*said.error)};
  if (kind == Kind::kOutOfMemory && said.allocation != nullptr)
    return {
        "reduce its memory use: smaller batches, activation checkpointing, sharded states; "
        "`torch.cuda.memory_summary()` shows what holds memory",
        "if much memory is free but fragmented: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; check also whether "
        "another process uses the device (`nvidia-smi`)"};
  if (kind == Kind::kOutOfMemory) {
    std::vector<std::string> steps;
    if (outcome.out_of_memory)
      steps.push_back(
          "`dmesg -T | grep -i oom` on its host shows which limit was reached, and which processes held the memory");
    steps.push_back("reduce its use of host memory: data loader workers, pinned buffers, checkpoints and caches");
    return steps;
  }
  if (said.of_a_peer())
    return {
        "look first at the rank that its exception speaks of, and at ranks that ended before it or stand elsewhere"};
  if (said.worker())
    return {
        "find what ended the worker: `dmesg -T | grep -iE 'oom|killed process|segfault'` on its host, and the worker's "
        "own last lines on standard error",
        "if it was killed: fewer workers, a smaller prefetch_factor, more memory for the job; after a bus error: "
        "`df -h /dev/shm`"};
  if (said.exception != nullptr && !said.exception->place.empty())
    return {"start at " + said.exception->place + "; the full traceback is on its standard error"};
  if (outcome.signal && outcome.signal != SIGKILL && !outcome.polite()) return StepsAfterSignal(process);
  return {};
}

std::optional<LastWords> DescribeWords(const Process& process) {
  const DeathCause said = ExplainDeath(process);
  LastWords words;
  if (said.signal != nullptr || said.handled != nullptr) {
    const FatalSignal& signal = said.signal != nullptr ? *said.signal : *said.handled;
    words.signal = SignalWords{signal.signal,
                               signal.code,
                               signal.fault_address,
                               signal.thread,
                               signal.thread_name,
                               (signal.flags & format::kSignalHandled) != 0,
                               {}};
    for (const reader::Frame& frame : signal.frames) words.signal->frames.push_back(FrameText(frame));
  }
  if (said.exception != nullptr)
    words.exception = ExceptionWords{said.exception->language == Language::kPython ? "python" : "c++",
                                     said.exception->type, said.exception->message, said.exception->place};
  if (said.allocation != nullptr) {
    const reader::FailedAllocation& failed = *said.allocation;
    const auto known = [&](std::uint64_t bytes) {
      return failed.total_bytes != 0 ? std::optional(bytes) : std::nullopt;
    };
    words.allocation = AllocationWords{std::string(functions::Allocation(failed.function).name), failed.bytes,
                                       failed.device, known(failed.free_bytes), known(failed.total_bytes)};
  }
  if (said.error != nullptr)
    words.error =
        ErrorWords{said.error->asynchronous ? std::string() : std::string(functions::OpName(said.error->function)),
                   ResultName(said.error->result), said.error->text, said.error->asynchronous};
  if (!words.signal && !words.exception && !words.allocation && !words.error) return std::nullopt;
  return words;
}

}  // namespace ncclwatch::diagnosis
