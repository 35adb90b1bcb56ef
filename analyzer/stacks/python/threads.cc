#include "analyzer/stacks/python/threads.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "analyzer/files/input_file.h"
#include "analyzer/stacks/python/variables.h"
#include "watchdog/cpython/objects.h"

namespace ncclwatch::stacks::python {
namespace {

bool SamePidNamespace(const std::string& folder) {
  struct stat its {
  }, ours{};
  return stat((folder + "/ns/pid").c_str(), &its) == 0 && stat("/proc/self/ns/pid", &ours) == 0 &&
         its.st_ino == ours.st_ino && its.st_dev == ours.st_dev;
}

// The last number of "NSpid:" is that of the innermost namespace, which the process sees.
std::int32_t LocalId(const std::string& task, std::int32_t seen) {
  analyzer::InputFile status(task + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    const std::size_t last = line.find_last_of("\t ");
    std::int32_t id = seen;
    std::from_chars(line.data() + last + 1, line.data() + line.size(), id);
    return id;
  }
  return seen;
}

// Descriptors that have a task's number there, each another's.
std::size_t Matches(Reader* memory, const std::vector<std::uint64_t>& descriptors, const Tasks& tasks,
                    std::uint64_t offset) {
  absl::flat_hash_set<std::int32_t> found;
  for (const std::uint64_t descriptor : descriptors) {
    const auto id = memory->Value<std::int32_t>(descriptor + offset);
    if (id && tasks.contains(*id) && !found.insert(*id).second) return 0;
  }
  return found.size();
}

constexpr std::size_t kMostInterpreters = 256;
constexpr std::size_t kMostThreads = 4096;
constexpr std::size_t kMostFrames = 1024;  // of a thread: more than Python's default limit of recursion
constexpr int kAttempts = 5;               // until two readings agree
// Frames walked through in one call, so that lists made up to be long end too. 50 threads of 1,000 frames that all run
// and are read ten times each stay below it.
constexpr std::size_t kMostSteps = 600'000;
constexpr std::uint64_t kPointerAlign = 8;
constexpr std::uint8_t kLastOwner = 4;

struct State {  // of a thread, as the lists have it
  std::uint64_t address = 0;
  std::uint64_t interpreter = 0;
  std::int64_t interpreter_id = 0;
  bool operator==(const State&) const = default;
};

struct RawFrame {
  std::uint64_t address = 0, code = 0;
  std::int64_t instruction = 0;
  std::int32_t copy = 0;
  bool entry = false;
  bool operator==(const RawFrame&) const = default;
};

struct RawStack {
  std::vector<RawFrame> frames;
  bool cut = false;
  std::string trouble;
  bool operator==(const RawStack&) const = default;
};

class Walk {
 public:
  Walk(Reader* memory, const Layout& layout, std::uint64_t runtime, Want want)
      : memory_(memory), layout_(layout), runtime_(runtime), want_(want), objects_(memory, layout) {}

  std::vector<State> States(std::string* trouble);
  std::vector<Thread> Threads(const std::vector<State>& states);
  std::optional<std::uint64_t> Pointer(std::uint64_t base, Field field) { return objects_.Pointer(base, field); }

 private:
  std::vector<State> StatesOnce(std::string* trouble);
  void ThreadsOf(std::uint64_t interpreter, std::vector<State>* states, std::string* trouble);
  RawStack Frames(const State& state);
  Gil GilOf(const State& state);
  bool FrameAt(std::uint64_t address, RawFrame* frame, std::uint8_t* owner);
  bool Name(const RawStack& raw, Thread* thread);

  Reader* memory_;
  Layout layout_;
  std::uint64_t runtime_;
  Want want_;
  Objects objects_;
  std::size_t steps_ = 0;
};

// Threads come and go: the lists are right when two readings of them are the same.
std::vector<State> Walk::States(std::string* trouble) {
  std::vector<State> states;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    memory_->Forget();
    trouble->clear();
    std::vector<State> again = StatesOnce(trouble);
    if (attempt > 0 && again == states && trouble->empty()) return again;
    states = std::move(again);
  }
  if (trouble->empty()) *trouble = "its threads came and went while they were listed, some may be missing";
  return states;
}

std::vector<State> Walk::StatesOnce(std::string* trouble) {
  std::vector<State> states;
  absl::flat_hash_set<std::uint64_t> seen;
  auto interpreter = Pointer(runtime_, kInterpreters);
  while (interpreter && *interpreter != 0) {
    if (seen.size() >= kMostInterpreters || !seen.insert(*interpreter).second) break;
    ThreadsOf(*interpreter, &states, trouble);
    interpreter = Pointer(*interpreter, kInterpreterNext);
  }
  if (!interpreter || *interpreter != 0) *trouble = "its list of interpreters could not be read to the end";
  return states;
}

void Walk::ThreadsOf(std::uint64_t interpreter, std::vector<State>* states, std::string* trouble) {
  const auto id = memory_->Value<std::int64_t>(interpreter + static_cast<std::uint64_t>(layout_[kInterpreterId]));
  absl::flat_hash_set<std::uint64_t> seen;
  auto thread = Pointer(interpreter, kInterpreterThreads);
  while (id && thread && *thread != 0) {
    // A wrong layout would show here too: each thread points back to its interpreter.
    const auto back = *thread % kPointerAlign == 0 ? Pointer(*thread, kThreadInterpreter) : std::nullopt;
    if (back != interpreter || states->size() >= kMostThreads || !seen.insert(*thread).second) break;
    states->push_back({*thread, interpreter, *id});
    thread = Pointer(*thread, kThreadNext);
  }
  if (!id || !thread || *thread != 0) *trouble = "its list of threads could not be read to the end";
}

Gil Walk::GilOf(const State& state) {
  std::optional<std::uint64_t> gil = runtime_ + static_cast<std::uint64_t>(layout_[kRuntimeGil]);
  if (layout_.Has(kInterpreterGil)) gil = Pointer(state.interpreter, kInterpreterGil);
  if (!gil || *gil == 0) return Gil::kUnknown;
  if (layout_.Has(kGilEnabled)) {
    const auto enabled = objects_.Int(*gil, kGilEnabled);
    if (!enabled || *enabled == 0) return enabled ? Gil::kNone : Gil::kUnknown;
  }
  const auto holder = Pointer(*gil, kGilHolder);
  const auto locked = objects_.Int(*gil, kGilLocked);
  if (!holder || !locked) return Gil::kUnknown;
  return *locked > 0 && *holder == state.address ? Gil::kHeld : Gil::kNotHeld;
}

// False where this cannot be a frame. Frames that stand for a C caller have no code.
bool Walk::FrameAt(std::uint64_t address, RawFrame* frame, std::uint8_t* owner) {
  if (address % kPointerAlign != 0) return false;
  *owner = 0;
  frame->address = address;
  if (layout_.Has(kFrameOwner)) {
    const auto value = memory_->Value<std::uint8_t>(address + static_cast<std::uint64_t>(layout_[kFrameOwner]));
    if (!value || *value > kLastOwner) return false;
    *owner = *value;
    if (*owner >= kFirstShimOwner) return true;
  } else if (!layout_.Has(kFrameEntry)) {
    if (!objects_.IsA(address, "frame")) return false;
    frame->entry = true;  // up to 3.10 each call of Python code is one of the interpreter's loop
  }
  if (layout_.Has(kFrameEntry)) {
    const auto value = memory_->Value<std::uint8_t>(address + static_cast<std::uint64_t>(layout_[kFrameEntry]));
    if (!value || *value > 1) return false;
    frame->entry = *value == 1;
  }
  const auto code = Pointer(address, kFrameCode);
  if (!code) return false;
  frame->code = *code & ~kStackRefTag;
  if (layout_.Has(kFrameCodeCopy)) frame->copy = objects_.Int(address, kFrameCodeCopy).value_or(0);
  if (layout_.minor <= 10) {
    const auto index = objects_.Int(address, kFrameInstruction);
    frame->instruction = index.value_or(0);
    return index.has_value();
  }
  const auto instruction = Pointer(address, kFrameInstruction);
  frame->instruction = static_cast<std::int64_t>(instruction.value_or(0));
  return instruction.has_value();
}

RawStack Walk::Frames(const State& state) {
  RawStack stack;
  absl::flat_hash_set<std::uint64_t> seen;
  auto at = Pointer(state.address, kThreadFrame);
  if (at && *at != 0 && layout_.Has(kCFrameFrame)) at = Pointer(*at, kCFrameFrame);
  while (at && *at != 0) {
    RawFrame frame;
    std::uint8_t owner = 0;
    if (++steps_ > kMostSteps) {
      stack.trouble = "there is too much to read";
      return stack;
    }
    if (!seen.insert(*at).second || !FrameAt(*at, &frame, &owner)) break;
    if (owner >= kFirstShimOwner) {
      if (!stack.frames.empty()) stack.frames.back().entry = true;
    } else if (stack.frames.size() == kMostFrames) {
      stack.cut = true;
      return stack;
    } else {
      stack.frames.push_back(frame);
    }
    at = Pointer(*at, kFramePrevious);
  }
  if (!at || *at != 0) stack.trouble = "its frames could not be read to the end";
  return stack;
}

// False where a frame has no code: then it and those further out are left out.
bool Walk::Name(const RawStack& raw, Thread* thread) {
  thread->frames.clear();
  thread->cut = raw.cut;
  thread->trouble = raw.trouble;
  for (const RawFrame& frame : raw.frames) {
    const Code* const code = objects_.CodeAt(frame.code);
    if (!code) {
      thread->trouble = "its frames could not be read to the end";
      return false;
    }
    if (code->IsInterpreters()) continue;
    thread->frames.push_back({code->function,
                              code->file,
                              objects_.LineOf(frame.code, *code, frame.instruction, frame.copy),
                              frame.entry,
                              {},
                              0});
    if (want_ == Want::kVariables) ReadVariables(memory_, &objects_, frame.address, frame.code, &thread->frames.back());
  }
  return raw.trouble.empty();
}

// All threads together, as they share pages: first the frames, then the code that these name, then the frames again.
// Frames hold their code: what was named in between was theirs if they are the same afterwards.
std::vector<Thread> Walk::Threads(const std::vector<State>& states) {
  std::vector<Thread> threads(states.size());
  std::vector<RawStack> raw(states.size());
  std::vector<std::size_t> pending(states.size());
  std::iota(pending.begin(), pending.end(), std::size_t{0});
  for (int attempt = 0; attempt < kAttempts && !pending.empty(); ++attempt) {
    memory_->Forget();
    for (const std::size_t i : pending) {
      raw[i] = Frames(states[i]);
      threads[i].gil = GilOf(states[i]);
    }
    memory_->Forget();
    for (const std::size_t i : pending) threads[i].exact = Name(raw[i], &threads[i]);
    memory_->Forget();
    for (const std::size_t i : pending) threads[i].exact &= Frames(states[i]) == raw[i];
    std::erase_if(pending, [&](std::size_t i) { return threads[i].exact; });
  }
  for (std::size_t i = 0; i < states.size(); ++i) threads[i].interpreter = states[i].interpreter_id;
  return threads;
}

// Numbers of threads, in the order of `states`; 0 unknown.
std::vector<int> ThreadNumbers(Reader* memory, Walk* walk, const Layout& layout, const std::vector<State>& states,
                               const Tasks& tasks) {
  std::vector<int> numbers(states.size(), 0);
  std::vector<std::uint64_t> descriptors, missing(states.size(), 0);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto native = layout.Has(kThreadNativeId) ? walk->Pointer(states[i].address, kThreadNativeId) : std::nullopt;
    const auto known = native ? tasks.find(static_cast<std::int32_t>(*native)) : tasks.end();
    if (known != tasks.end()) {
      numbers[i] = known->second;
      continue;
    }
    // 3.9 and 3.10 know the pthread_t alone.
    missing[i] = walk->Pointer(states[i].address, kThreadId).value_or(0);
    if (missing[i] != 0 && std::find(descriptors.begin(), descriptors.end(), missing[i]) == descriptors.end())
      descriptors.push_back(missing[i]);
  }
  const std::uint64_t offset = descriptors.empty() ? kNoTidOffset : FindTidOffset(memory, descriptors, tasks);
  for (std::size_t i = 0; i < states.size() && offset != kNoTidOffset; ++i) {
    const auto id = missing[i] != 0 ? memory->Value<std::int32_t>(missing[i] + offset) : std::nullopt;
    const auto known = id ? tasks.find(*id) : tasks.end();
    if (known != tasks.end()) numbers[i] = known->second;
  }
  return numbers;
}

}  // namespace

Tasks TasksOf(int pid) {
  Tasks tasks;
  const std::string folder = fmt::format("/proc/{}", pid);
  const bool same = SamePidNamespace(folder);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder + "/task", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    int seen = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), seen).ec != std::errc{}) continue;
    tasks.emplace(same ? seen : LocalId(entry->path(), seen), seen);
  }
  return tasks;
}

std::uint64_t FindTidOffset(Reader* memory, const std::vector<std::uint64_t>& descriptors, const Tasks& tasks) {
  // glibc's for x86-64 and aarch64 first: a small number (a container's process 1) may be found in other places too.
  constexpr std::uint64_t kGlibc[] = {720, 208};
  constexpr std::uint64_t kMost = 2048;
  std::uint64_t best = kNoTidOffset;
  std::size_t most = 0;
  const auto consider = [&](std::uint64_t offset) {
    const std::size_t matches = Matches(memory, descriptors, tasks, offset);
    if (matches <= most) return;
    most = matches;
    best = offset;
  };
  for (const std::uint64_t offset : kGlibc) consider(offset);
  for (std::uint64_t offset = 0; offset < kMost && most < descriptors.size(); offset += sizeof(std::int32_t))
    consider(offset);
  return best;
}

Stacks ReadThreads(Reader* memory, const Layout& layout, std::uint64_t runtime, const Tasks& tasks, Want want) {
  Stacks stacks;
  stacks.present = true;
  Walk walk(memory, layout, runtime, want);
  const std::vector<State> states = walk.States(&stacks.trouble);
  const std::vector<int> numbers = ThreadNumbers(memory, &walk, layout, states, tasks);
  stacks.threads = walk.Threads(states);
  for (std::size_t i = 0; i < states.size(); ++i) stacks.threads[i].tid = numbers[i];
  return stacks;
}

}  // namespace ncclwatch::stacks::python
