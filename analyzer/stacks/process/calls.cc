#include "analyzer/stacks/process/calls.h"

#include <fmt/core.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>

#include "analyzer/stacks/process/words.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::stacks {
namespace {

constexpr std::size_t kMostShown = 4;  // descriptors of one call
constexpr std::uint64_t kMostPolled = 256;

template <std::size_t kCount>
bool Among(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 10> kReaders = {"read",     "readv",  "pread64", "recvfrom", "recvmsg",
                                                       "recvmmsg", "accept", "accept4", "preadv",   "preadv2"};
constexpr std::array<std::string_view, 9> kWriters = {"write",    "writev",  "pwrite64", "sendto",  "sendmsg",
                                                      "sendmmsg", "pwritev", "pwritev2", "sendfile"};
constexpr std::array<std::string_view, 12> kOthersOnFiles = {"ioctl",     "fsync",     "fdatasync", "flock",
                                                             "close",     "connect",   "fcntl",     "getdents64",
                                                             "ftruncate", "fallocate", "fstat",     "io_uring_enter"};

std::string SecondsText(double seconds) { return fmt::format("{:.3g} s", seconds); }

int DescriptorOf(std::uint64_t argument) { return static_cast<int>(argument); }

std::string FutexText(const InCall& call) {
  const int operation = static_cast<int>(call.arguments[1]) & FUTEX_CMD_MASK;
  const bool wait = operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET || operation == FUTEX_WAIT_REQUEUE_PI;
  if (wait) return call.arguments[3] == 0 ? "wait, no time limit" : "wait with a time limit";
  return operation == FUTEX_LOCK_PI || operation == FUTEX_LOCK_PI2 ? "lock" : "";
}

}  // namespace

std::string Calls::LimitText(std::uint64_t timespec_address, const char* none) const {
  if (timespec_address == 0) return none;
  const auto limit = memory_->Value<timespec>(timespec_address);
  if (!limit) return "";
  return SecondsText(static_cast<double>(limit->tv_sec) + InSeconds(limit->tv_nsec));
}

std::vector<Calls::Waited> Calls::OfPoll(std::uint64_t address, std::uint64_t count) const {
  std::vector<pollfd> polled(std::min(count, kMostPolled));
  std::vector<Waited> waited;
  if (!memory_->Read(address, polled.data(), polled.size() * sizeof(pollfd))) return waited;
  for (const pollfd& one : polled)
    if (one.fd >= 0)
      waited.push_back(
          {one.fd, (one.events & POLLIN) == 0 && (one.events & POLLOUT) != 0 ? Direction::kWrites : Direction::kReads});
  return waited;
}

std::vector<Calls::Waited> Calls::OfSelect(const InCall& call) const {
  std::vector<Waited> waited;
  const std::uint64_t count = std::min<std::uint64_t>(call.arguments[0], 1024);
  for (const auto& [address, direction] :
       {std::pair(call.arguments[1], Direction::kReads), std::pair(call.arguments[2], Direction::kWrites)}) {
    // The kernel has its own copy; the caller's set is as it was while the call waits.
    std::array<std::uint64_t, 16> set{};
    if (address == 0 || !memory_->Read(address, set.data(), (count + 63) / 64 * 8)) continue;
    for (std::uint64_t i = 0; i < count; ++i)
      if ((set[i / 64] >> (i % 64) & 1) != 0) waited.push_back({static_cast<int>(i), direction});
  }
  return waited;
}

std::vector<Calls::Waited> Calls::WaitedFor(const InCall& call, const std::string& name) const {
  const auto& arguments = call.arguments;
  if (Among(kReaders, name)) return {{DescriptorOf(arguments[0]), Direction::kReads}};
  if (Among(kWriters, name)) return {{DescriptorOf(arguments[0]), Direction::kWrites}};
  if (name == "poll" || name == "ppoll") return OfPoll(arguments[0], arguments[1]);
  if (name == "select" || name == "pselect6") return OfSelect(call);
  std::vector<Waited> waited;
  if (name.starts_with("epoll_"))
    for (const int descriptor : descriptors_->Watched(DescriptorOf(arguments[0])))
      waited.push_back({descriptor, Direction::kReads});
  return waited;
}

std::string Calls::ManyText(const std::vector<Waited>& waited) const {
  if (waited.empty()) return "nothing";
  std::vector<std::string> texts;
  for (const Waited& one : waited)
    if (texts.size() < kMostShown)
      texts.push_back(fmt::format("{}: {}", one.descriptor, descriptors_->Text(one.descriptor)));
  return ListText(texts, waited.size());
}

std::string Calls::Text(const InCall& call) const {
  if (call.running || call.number < 0) return "";
  std::string name = CallName(call.number);
  if (name.empty()) return fmt::format("system call {}", call.number);
  if (name == "restart_syscall") return "a wait that was interrupted and goes on";
  const auto with = [&name](const std::string& inside) { return name + "(" + inside + ")"; };
  const auto& arguments = call.arguments;
  if (name == "futex") return with(FutexText(call));
  if (name == "nanosleep") return with(LimitText(arguments[0], ""));
  if (name == "clock_nanosleep") return with(arguments[1] == 0 ? LimitText(arguments[2], "") : "until a moment");
  if (name == "wait4")
    return with(static_cast<int>(arguments[0]) > 0 ? PidText(static_cast<int>(arguments[0])) : "any child");
  const auto forever = [](std::uint64_t argument) { return static_cast<int>(argument) < 0; };
  const auto milliseconds = [&](std::uint64_t argument) {
    return forever(argument) ? "no time limit" : SecondsText(static_cast<double>(static_cast<int>(argument)) / 1e3);
  };
  const std::vector<Waited> waited = WaitedFor(call, name);
  if (name == "poll") return with(ManyText(waited) + "; " + milliseconds(arguments[2]));
  if (name == "ppoll") return with(ManyText(waited) + "; " + LimitText(arguments[2], "no time limit"));
  if (name == "select" || name == "pselect6")
    return with(ManyText(waited) + (arguments[4] == 0 ? "; no time limit" : "; with a time limit"));
  if (name == "epoll_wait" || name == "epoll_pwait") return with(ManyText(waited) + "; " + milliseconds(arguments[3]));
  if (name == "epoll_pwait2") return with(ManyText(waited) + "; " + LimitText(arguments[3], "no time limit"));
  if (!waited.empty()) return with(ManyText(waited));
  const int descriptor = DescriptorOf(arguments[0]);
  if (Among(kOthersOnFiles, name)) return with(fmt::format("{}: {}", descriptor, descriptors_->Text(descriptor)));
  return name;
}

InCall Calls::Original(InCall call, const Thread& thread) {
  constexpr std::uint64_t kClocks = 16;  // numbers of clocks are smaller, addresses larger
  if (call.running || call.number != SYS_restart_syscall) return call;
  // Only these are continued in this way, with their arguments still in the registers.
  const std::string function = thread.frames.empty() ? "" : thread.frames.front().function;
  if (function == "poll") {
    call.number = SYS_ppoll;
#ifdef SYS_poll
    call.number = SYS_poll;
#endif
  } else if (function.find("nanosleep") != std::string::npos) {
    call.number = call.arguments[0] < kClocks ? SYS_clock_nanosleep : SYS_nanosleep;
  } else if (!function.empty()) {
    call.number = SYS_futex;
  }
  return call;
}

std::string Calls::WaitsOn(const InCall& call, const Thread& thread, const std::vector<Thread>& threads,
                           Search search) const {
  if (call.running || call.number < 0) return "";
  const std::string name = CallName(call.number);
  if (name == "futex") return MutexText(call, thread, threads);
  std::string text, within;
  std::size_t said = 0;
  for (const Waited& one : WaitedFor(call, name)) {
    bool own = false;
    const std::string sentence = descriptors_->OtherEnd(one.descriptor, one.direction, search, &own);
    if (sentence.empty()) continue;
    // Programs wake themselves through pipes of their own: worth a word only if there is nothing else.
    if (own)
      within = sentence;
    else if (said++ < kMostShown)
      text += (text.empty() ? "" : "; ") + sentence;
  }
  return text.empty() ? within : text;
}

// glibc's mutex: lock word, count, owner (sysdeps/nptl/bits/struct_mutex.h); the wait is for the lock word.
std::string Calls::MutexText(const InCall& call, const Thread& thread, const std::vector<Thread>& threads) const {
  constexpr std::uint64_t kOwner = 8;
  constexpr std::size_t kNearby = 4;  // frames from the system call to the function of the application's call
  bool locks = false;
  for (std::size_t i = 0; i < thread.frames.size() && i < kNearby; ++i) {
    const std::string& function = thread.frames[i].function;
    locks |= function == "pthread_mutex_lock" || function == "pthread_mutex_timedlock" ||
             function == "pthread_mutex_clocklock";
  }
  const auto owner = locks ? memory_->Value<std::int32_t>(call.arguments[0] + kOwner) : std::nullopt;
  if (!owner) return "";
  const auto found =
      std::find_if(threads.begin(), threads.end(), [&](const Thread& other) { return other.tid == *owner; });
  if (found == threads.end()) return "";
  if (found->tid == thread.tid) return "it waits for a mutex that it holds itself";
  return fmt::format("it waits for a mutex that thread {} '{}' holds ({})", found->tid, found->name,
                     StateText(found->state));
}

}  // namespace ncclwatch::stacks
