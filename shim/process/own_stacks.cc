#include "shim/process/own_stacks.h"

#include <dirent.h>
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "ncclwatch/format/sample.h"
#include "shim/base/clock.h"
#include "shim/base/process.h"
#include "shim/base/self_memory.h"
#include "shim/black_box/box.h"
#include "shim/crash_handlers/sample.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::shim {
namespace {

constexpr std::size_t kMostStack = 64 << 10;  // of one thread
constexpr std::size_t kMostStacks = 4 << 20;  // of all threads: the run directory may be small
constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kNewestCalls = 16;

#if defined(__x86_64__)
constexpr unsigned kStackPointer = 7;
constexpr std::uint32_t kMachine = EM_X86_64;
#else
constexpr unsigned kStackPointer = 31;
constexpr std::uint32_t kMachine = EM_AARCH64;
#endif

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

// From the stack pointer up, as far as it can be read.
std::string CopyStack(std::uint64_t from, std::size_t most) {
  std::string copy;
  const std::uint64_t end = MainStackEnd();
  if (from < end) most = std::min<std::uint64_t>(most, end - from);
  while (copy.size() < most) {
    const std::size_t part = std::min<std::size_t>(kPage - (from + copy.size()) % kPage, most - copy.size());
    const std::size_t used = copy.size();
    copy.resize(used + part);
    if (ReadSelf(from + used, copy.data() + used, part)) continue;
    copy.resize(used);
    break;
  }
  return copy;
}

struct ThreadSample {
  format::SampledThread thread{};
  std::string stack;
};

// The registers that a sleeping thread left in the kernel are not known, but for two.
ThreadSample Read(const std::string& task, std::size_t most_stack) {
  ThreadSample sample;
  format::SampledThread& thread = sample.thread;
  thread.thread = static_cast<std::uint32_t>(std::strtoul(task.c_str() + task.rfind('/') + 1, nullptr, 10));
  const std::string comm = rundir::ReadSmall(task + "/comm", 64).value_or("");
  comm.copy(thread.name, std::min(comm.find('\n'), sizeof thread.name - 1));
  const std::optional<Place> place = PlaceOf(task);
  thread.state = static_cast<std::uint32_t>(format::Sampled::kRuns);
  if (!place) return sample;
  thread.pc = place->pc;
  thread.registers[kStackPointer] = thread.stack_address = place->stack;
  thread.known = std::uint64_t{1} << kStackPointer;
  sample.stack = CopyStack(place->stack, most_stack);
  thread.stack_bytes = static_cast<std::uint32_t>(sample.stack.size());
  const bool still = PlaceOf(task) == place;
  thread.state = static_cast<std::uint32_t>(still ? format::Sampled::kWhole : format::Sampled::kMoved);
  return sample;
}

std::vector<std::string> Tasks() {
  std::vector<std::string> names;
  const auto self = static_cast<unsigned long>(gettid());
  DIR* tasks = opendir("/proc/self/task");
  if (!tasks) return names;
  while (const dirent* entry = readdir(tasks))
    if (entry->d_name[0] != '.' && std::strtoul(entry->d_name, nullptr, 10) != self &&
        names.size() < format::kMostSampledThreads)
      names.push_back(std::string("/proc/self/task/") + entry->d_name);
  closedir(tasks);
  return names;
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

template <class T>
void Append(const T& value, std::string* to) {
  to->append(reinterpret_cast<const char*>(&value), sizeof value);
}

format::SampleHeader HeaderOf(const Box& box) {
  const format::Identity& self = box.header->identity;
  format::SampleHeader header{};
  std::memcpy(header.magic, format::kSampleMagic, sizeof header.magic);
  header.version = format::kSampleVersion;
  header.machine = kMachine;
  header.at_ns = clock::Nanoseconds(CLOCK_MONOTONIC);
  header.at_real_ns = clock::Nanoseconds(CLOCK_REALTIME);
  header.start_time = self.start_time;
  header.pid = box.pid;
  header.rank = self.rank;
  header.matters = NewestCaller(box);
  std::memcpy(header.host, self.host, sizeof header.host);
  return header;
}

}  // namespace

std::string SampleOwnStacks() {
  const Box* box = CurrentBox();
  if (!box) return {};
  format::SampleHeader header = HeaderOf(*box);
  const std::vector<std::string> tasks = Tasks();
  const std::size_t most_stack = std::min(kMostStack, kMostStacks / std::max<std::size_t>(1, tasks.size()));
  std::vector<ThreadSample> samples;
  for (const std::string& task : tasks) samples.push_back(Read(task, most_stack));
  const std::string maps = rundir::ReadSmall("/proc/self/maps", format::kMostSampledMaps).value_or("");

  header.threads = static_cast<std::uint32_t>(samples.size());
  header.maps_offset = sizeof header + samples.size() * sizeof(format::SampledThread);
  header.maps_bytes = maps.size();
  header.bytes = header.maps_offset + maps.size();
  for (ThreadSample& sample : samples) {
    sample.thread.stack_offset = header.bytes;
    header.bytes += sample.stack.size();
  }
  std::string whole;
  whole.reserve(header.bytes);
  Append(header, &whole);
  for (const ThreadSample& sample : samples) Append(sample.thread, &whole);
  whole += maps;
  for (const ThreadSample& sample : samples) whole += sample.stack;
  return whole;
}

}  // namespace ncclwatch::shim
