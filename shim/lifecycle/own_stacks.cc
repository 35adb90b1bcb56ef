#include "shim/lifecycle/own_stacks.h"

#include <cxxabi.h>
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "shim/lifecycle/process.h"
#include "shim/lifecycle/words/cfi.h"
#include "shim/lifecycle/words/loaded.h"
#include "shim/recorder/box.h"
#include "shim/recorder/clock.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::shim {
namespace {

constexpr std::size_t kMostThreads = 1024;
constexpr std::size_t kMostFrames = 64;
constexpr std::size_t kMostWhere = 6;  // as the verdict quotes them
constexpr std::uint64_t kNewestCalls = 16;

struct Place {
  std::uint64_t stack = 0, pc = 0;
  bool operator==(const Place&) const = default;
};

// None of a thread that runs, or is gone.
std::optional<Place> PlaceOf(const std::string& task) {
  // "NUMBER ARGUMENTS... STACK PC", "-1 STACK PC" outside system calls, or "running".
  const std::string text = rundir::ReadSmall(task + "/syscall", 512).value_or("");
  const std::size_t last = text.rfind(' ');
  const std::size_t before = last == std::string::npos ? last : text.rfind(' ', last - 1);
  if (before == std::string::npos) return std::nullopt;
  Place place;
  place.stack = std::strtoull(text.c_str() + before + 1, nullptr, 16);
  place.pc = std::strtoull(text.c_str() + last + 1, nullptr, 16);
  return place.pc == 0 ? std::nullopt : std::optional<Place>(place);
}

// The registers that a sleeping thread left in the kernel are not known, but for these two. Functions that wait in the
// kernel seldom need others to find their caller; where one does, the stack ends there.
std::vector<std::uint64_t> Addresses(const Place& place) {
  Registers registers;
  registers.value[Registers::kStack] = place.stack;
  registers.pc = place.pc;
  std::vector<std::uint64_t> addresses;
  StepWork work;  // not the signal handlers': another thread may be ending the process
  bool exact = true;
  while (addresses.size() < kMostFrames) {
    const std::uint64_t at = exact ? registers.pc : registers.pc - 1;
    addresses.push_back(at);
    Loaded module;
    if (!FindLoaded(at, &module) || module.eh_frame_hdr == 0) break;
    const std::uint64_t stack = registers.value[Registers::kStack];
    const Stepped stepped = StepByTable(module.eh_frame_hdr, exact, &registers, &work);
    if (stepped == Stepped::kNo || stepped == Stepped::kEnd) break;
    if (stepped == Stepped::kCaller && registers.value[Registers::kStack] <= stack && addresses.size() > 1) break;
    exact = stepped == Stepped::kSignal;
  }
  return addresses;
}

std::string NameOf(std::uint64_t address) {
  Dl_info info{};
  char offset[32];
  const bool known = dladdr(reinterpret_cast<const void*>(address), &info) != 0 && info.dli_fname;
  const std::string path = known ? info.dli_fname : "";
  const std::string module = path.substr(path.rfind('/') + 1);
  if (known && info.dli_sname) {
    int status = 0;
    char* readable = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    std::string name = readable ? readable : info.dli_sname;
    free(readable);
    return name + " (" + module + ")";
  }
  const std::uint64_t base = known ? reinterpret_cast<std::uint64_t>(info.dli_fbase) : 0;
  std::snprintf(offset, sizeof offset, "%s0x%llx", known ? "+" : "", static_cast<unsigned long long>(address - base));
  return module + offset;
}

struct ThreadText {
  std::uint32_t id = 0;
  std::string text;
  std::vector<std::string> frames;
};

ThreadText Read(const std::string& task) {
  ThreadText thread;
  const std::string id = task.substr(task.rfind('/') + 1);
  thread.id = static_cast<std::uint32_t>(std::strtoul(id.c_str(), nullptr, 10));
  const std::string comm = rundir::ReadSmall(task + "/comm", 64).value_or("");
  thread.text = "thread " + id + " " + comm.substr(0, comm.find('\n'));
  const std::optional<Place> place = PlaceOf(task);
  if (!place) {
    thread.text += ": runs; not interrupted to be read\n";
    return thread;
  }
  for (const std::uint64_t address : Addresses(*place)) thread.frames.push_back(NameOf(address));
  const bool still = PlaceOf(task) == place;
  thread.text += still ? ": sleeps\n" : ": moved on while it was read\n";
  if (!still) thread.frames.resize(1);
  for (const std::string& frame : thread.frames) thread.text += "  " + frame + "\n";
  return thread;
}

std::vector<ThreadText> ReadAll() {
  std::vector<ThreadText> threads;
  const auto self = static_cast<unsigned long>(gettid());
  DIR* tasks = opendir("/proc/self/task");
  if (!tasks) return threads;
  while (const dirent* entry = readdir(tasks))
    if (entry->d_name[0] != '.' && std::strtoul(entry->d_name, nullptr, 10) != self && threads.size() < kMostThreads)
      threads.push_back(Read(std::string("/proc/self/task/") + entry->d_name));
  closedir(tasks);
  return threads;
}

std::uint32_t NewestCaller(const Box& box) {
  const std::uint64_t head = box.header->head.load(std::memory_order_acquire);
  for (std::uint64_t i = 1; i <= std::min(head, kNewestCalls); ++i) {
    const format::Record& record = box.RecordAt(head - i);
    if (record.commit.load(std::memory_order_acquire) == head - i + 1)
      return std::atomic_ref(const_cast<std::uint32_t&>(record.thread)).load(std::memory_order_relaxed);
  }
  return box.pid;
}

std::string Head(const Box& box, const ThreadText* asked) {
  const format::Identity& self = box.header->identity;
  std::string text = "ncclwatch.stacks/1\nprocess pid " + std::to_string(box.pid) + " start " +
                     std::to_string(self.start_time) + " rank " + std::to_string(self.rank) + " host " + self.host +
                     " at_ns " + std::to_string(clock::Nanoseconds(CLOCK_MONOTONIC)) +
                     "\nstate read from inside, since nobody may look at it from outside\n";
  for (std::size_t i = 0; asked && i < std::min(asked->frames.size(), kMostWhere); ++i)
    text += "where " + asked->frames[i] + "\n";
  return text + "\n";
}

}  // namespace

std::string OwnStacks() {
  const Box* box = CurrentBox();
  if (!box) return {};
  const std::vector<ThreadText> threads = ReadAll();
  const std::uint32_t caller = NewestCaller(*box);
  const auto asked = std::find_if(threads.begin(), threads.end(), [&](const auto& one) { return one.id == caller; });
  std::string text = Head(*box, asked == threads.end() ? nullptr : &*asked);
  for (const ThreadText& thread : threads) text += thread.text;
  return text;
}

}  // namespace ncclwatch::shim
