// What a process said of itself before its end: fatal signals, exceptions that nobody caught, allocations that failed,
// errors that NCCL returned, wrong uses of MPI. One `Words` in a section of its own (16 KiB); boxes of older writers
// have none, or one of 8 KiB without the last kind.
//
// Each entry is written once by one thread and then stands: commit = 0, the fields, commit = number + 1 (release),
// where number counts the entries of its kind; entry number n lies in slot n % size. A reader loads commit, copies, and
// loads it again. Written in signal handlers: nothing here may need a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ncclwatch/format/misuse.h"

namespace ncclwatch::format {

// An instruction of a backtrace: the faulting one itself, or the return address of a call.
struct Frame {
  std::uint64_t address;
  std::uint64_t
      offset;  // in the module's own addresses as addr2line takes them (of a call: the byte before its return)
  std::uint32_t module;  // its path, an offset in strings; 0: in no module that is known
  std::uint32_t reserved;
};
static_assert(sizeof(Frame) == 24);
inline constexpr std::uint32_t kFrames = 24;

enum SignalFlags : std::uint32_t {
  kSignalHandled = 1u << 0,   // the application had a handler of its own, which ran next: perhaps the process lived on
  kSignalOverflow = 1u << 1,  // the fault was just below the stack of its thread
};

struct FatalSignal {
  std::atomic<std::uint64_t> commit;
  std::int64_t at_ns;           // CLOCK_MONOTONIC
  std::uint64_t fault_address;  // si_addr; 0 for a signal that was sent
  std::uint64_t stack_pointer;
  std::int32_t signal;
  std::int32_t code;    // si_code
  std::int32_t sender;  // si_pid of a signal that was sent (code <= 0), else 0
  std::uint32_t thread;
  std::uint32_t flags;  // SignalFlags
  std::uint32_t frames;
  char thread_name[16];
  Frame frame[kFrames];  // [0] is where the signal found the thread
};
static_assert(sizeof(FatalSignal) == 648);
inline constexpr std::uint32_t kFatalSignals = 2;  // the newest, and the one whose handler led to it

enum class Language : std::uint32_t { kCpp = 1, kPython = 2 };

struct Exception {
  std::atomic<std::uint64_t> commit;
  std::int64_t at_ns;
  std::uint32_t language;  // Language
  std::uint32_t thread;
  char type[128];     // C++: mangled, empty for std::terminate() without an exception; Python: "module.Name"
  char message[512];  // what(), str()
  char place[248];    // Python: "/path/file.py:12 in function", the innermost line of the application
};
static_assert(sizeof(Exception) == 912);
inline constexpr std::uint32_t kExceptions = 2;

// Numbers of functions that allocate: the rows of functions/cuda.def; ncclMemAlloc is kNcclMemAlloc.
inline constexpr std::uint32_t kNcclMemAlloc = 100;

struct FailedAllocation {
  std::atomic<std::uint64_t> commit;
  std::int64_t at_ns;
  std::atomic<std::int64_t> recovered_ns;  // an allocation as large succeeded there later; 0: none was seen
  std::uint64_t bytes;                     // asked for
  std::uint64_t free_bytes;                // of the device right after, 0 unknown
  std::uint64_t total_bytes;
  std::uint32_t function;
  std::int32_t result;  // CUresult, or ncclResult_t of ncclMemAlloc
  std::int32_t device;  // -1 unknown
  std::uint32_t thread;
};
static_assert(sizeof(FailedAllocation) == 64);
inline constexpr std::uint32_t kFailedAllocations = 8;

enum NcclErrorFlags : std::uint32_t {
  kErrorAsynchronous = 1u << 0,  // told by ncclCommGetAsyncError, not returned by a call
};

struct NcclError {
  std::atomic<std::uint64_t> commit;
  std::int64_t at_ns;
  std::uint64_t slot;          // of the call's record, ~0 if it has none
  std::uint32_t function;      // functions::Function
  std::uint32_t communicator;  // index into the table, kNoCommunicator if none
  std::uint32_t generation;
  std::int32_t result;  // ncclResult_t
  std::uint32_t thread;
  std::uint32_t flags;  // NcclErrorFlags
  char text[464];       // of ncclGetLastError, empty if it has none
};
static_assert(sizeof(NcclError) == 512);
// The first half keeps the first errors of the process, which are the cause of the later ones; the rest goes round.
inline constexpr std::uint32_t kNcclErrors = 8;
constexpr std::uint32_t NcclErrorSlot(std::uint64_t number) {
  constexpr std::uint32_t kFirst = kNcclErrors / 2;
  return static_cast<std::uint32_t>(number < kFirst ? number : kFirst + number % (kNcclErrors - kFirst));
}

struct Words {
  std::atomic<std::uint64_t> signals_seen;  // entries of each kind so far; the next number
  std::atomic<std::uint64_t> exceptions_seen;
  std::atomic<std::uint64_t> allocations_failed;
  std::atomic<std::uint64_t> errors_seen;
  std::atomic<std::uint32_t> catching;  // 1 once handlers of fatal signals are in place
  std::uint32_t reserved32;
  // Of the host, as the watchdog saw it last; memory_at_ns (CLOCK_MONOTONIC) is stored last, 0: never.
  std::atomic<std::int64_t> memory_at_ns;
  std::uint64_t resident_bytes;   // of this process
  std::uint64_t available_bytes;  // of the whole host, 0 unknown
  FatalSignal signals[kFatalSignals];
  Exception exceptions[kExceptions];
  FailedAllocation allocations[kFailedAllocations];
  NcclError errors[kNcclErrors];
  std::atomic<std::uint64_t> misuses_seen;  // and so on; beyond kMisuses none is kept
  Misuse misuses[kMisuses];
};
inline constexpr std::uint32_t kWordsBytes = 16384;
inline constexpr std::uint32_t kWordsBytesWithoutMisuses = 8192;
static_assert(sizeof(Words) <= kWordsBytes && offsetof(Words, misuses_seen) == 7792);

}  // namespace ncclwatch::format
