// A sample: what is needed to unwind the threads of a process later and elsewhere. For each thread its registers and a
// copy of its stack from the stack pointer up; for the process the lines of /proc/PID/maps that name its modules.
//
// One sample lies behind the black box of a process that died of a signal, at byte `file_bytes` of the box's file: the
// handler of the signal appends it. Others are files `stacks/<pid>.sample`, written where nobody may read the process
// from outside. The command unwinds both and removes them.
//
// The header is written last. All offsets are from the first byte of the header. Native endianness and alignment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ncclwatch::format {

// Further FatalSignal::flags (last_words.h). Until a signal is unwound its only frame is the place where it found the
// thread.
inline constexpr std::uint32_t kSignalSampled = 1u << 2;  // a sample lies behind the box
inline constexpr std::uint32_t kSignalUnwound = 1u << 3;  // the command has unwound it, and the frames are whole

inline constexpr char kSampleMagic[8] = {'N', 'C', 'C', 'L', 'W', 'S', 'M', 'P'};
inline constexpr std::uint32_t kSampleVersion = 1;
inline constexpr std::uint32_t kSampleRegisters = 34;  // DWARF numbers: x86-64 has 0 to 16, aarch64 0 to 31
inline constexpr char kSampleSuffix[] = ".sample";

inline constexpr std::uint32_t kMostCrashStack = 8 << 20;
inline constexpr std::uint32_t kMostSampledMaps = 1 << 20;  // bytes of lines
inline constexpr std::uint32_t kMostSampledThreads = 1024;
inline constexpr std::uint64_t kMostSampleBytes = 32 << 20;

enum class Sampled : std::uint32_t {
  kWhole = 1,  // registers and stack are of one moment
  kMoved = 2,  // the thread ran while its stack was copied: only its pc counts
  kRuns = 3,   // the thread was running, and was not interrupted: nothing of it is known
};

struct SampledThread {
  std::uint64_t known;  // bit n: registers[n] is known
  std::uint64_t pc;
  std::uint64_t registers[kSampleRegisters];
  std::uint64_t stack_address;  // of the first byte that was copied
  std::uint64_t stack_offset;
  std::uint32_t stack_bytes;
  std::uint32_t thread;
  std::uint32_t state;  // Sampled
  std::uint32_t reserved;
  char name[16];
};
static_assert(sizeof(SampledThread) == 336);

// Followed by its threads.
struct SampleHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t machine;     // e_machine of the program
  std::uint64_t bytes;       // of the whole sample
  std::int64_t at_ns;        // CLOCK_MONOTONIC; of a crash: FatalSignal::at_ns of the signal that it belongs to
  std::int64_t at_real_ns;   // CLOCK_REALTIME
  std::uint64_t start_time;  // field 22 of /proc/PID/stat
  std::uint32_t pid;
  std::int32_t rank;
  std::uint32_t matters;  // the thread whose stack is asked for
  std::uint32_t threads;
  std::uint64_t maps_offset;
  std::uint64_t maps_bytes;
  char host[64];
};
static_assert(sizeof(SampleHeader) == 144);

}  // namespace ncclwatch::format
