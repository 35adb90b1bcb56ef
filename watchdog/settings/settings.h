// What the NCCLWATCH_* variables say, within the rules of the machine's administrator (rules.h). A value that does not
// parse becomes one complaint and the default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ncclwatch::settings {

enum class OnFault { kReport, kDump, kAbort };
enum class GpuMarks { kOff, kEnd, kBoth };
enum class Sites { kOff, kNative, kPython, kAuto };
enum class Trace { kRing, kFull };
enum class LogLevel { kOff, kError, kWarn, kInfo, kDebug };

struct MpiChecks {
  bool sync = false;     // standard sends are made synchronous
  bool buffers = false;  // buffers of active requests are looked at for changes
};

// How long, and how much in sum, run directories of jobs that did not end well are kept.
struct Keep {
  double age_s = 7 * 86400.0;
  std::uint64_t bytes = std::uint64_t{2} << 30;
  bool all = false;  // also those of jobs that ended well
};

// Kernels of NCCL are timed by its profiler interface.
struct Profiler {
  std::uint32_t every = 16;    // one in so many, 0: none
  bool beside_others = false;  // also where NCCL has been given another plugin
};

// Holds more than a second of calls where the collector is late.
inline constexpr std::uint32_t kRecordedRing = 65536;

struct Settings {
  bool on = true;                      // NCCLWATCH
  std::string directory;               // NCCLWATCH_DIR, empty: the default
  std::string out;                     // NCCLWATCH_OUT, empty: none
  std::string job;                     // NCCLWATCH_JOB, empty: from the launcher
  OnFault on_fault = OnFault::kDump;   // NCCLWATCH_ON_FAULT
  std::optional<double> timeout_s;     // NCCLWATCH_TIMEOUT, none: auto
  std::uint32_t communicators = 1024;  // NCCLWATCH_COMMUNICATORS, alive at once in one process, in [64, 65536]
  std::uint32_t crash_stack = 65536;   // NCCLWATCH_CRASH_STACK, bytes of the stack that a crash keeps, 0: none
  std::uint32_t ring = 16384;          // NCCLWATCH_RING, rounded up to a power of two in [256, 2^22]
  Trace trace = Trace::kRing;          // NCCLWATCH_TRACE; kFull: the ring has kRecordedRing if nobody says another size
  std::string trace_directory;         // NCCLWATCH_TRACE_DIR, empty: chosen by the collector
  std::uint64_t trace_most_bytes = 0;  // NCCLWATCH_TRACE_MAX, 0: no limit
  GpuMarks gpu = GpuMarks::kEnd;       // NCCLWATCH_GPU
  Profiler profiler;                   // NCCLWATCH_PROFILER
  Sites sites = Sites::kAuto;          // NCCLWATCH_SITES; kAuto: kPython in a process with a Python, else kNative
  std::string nccl;                    // NCCLWATCH_NCCL
  std::string hook;                    // NCCLWATCH_HOOK
  std::string exchange = "auto";       // NCCLWATCH_EXCHANGE: auto, off, or what exchange_address.h can read
  std::string why_no_exchange;         // why it is off although nobody asked for that; else empty
  std::string ignore;                  // NCCLWATCH_IGNORE, path of a file of known findings, empty: none
  std::string token;                   // NCCLWATCH_TOKEN, empty: none; a secret
  std::string token_file;              // NCCLWATCH_TOKEN_FILE, empty: none; the path of a file that holds the secret
  std::string bind;                    // NCCLWATCH_BIND, what bind_address.h can read, empty: all addresses, any port
  std::string exclude;                 // NCCLWATCH_EXCLUDE, comma-separated program names, * allowed
  Keep keep;                           // NCCLWATCH_KEEP
  double hook_timeout_s = 30;          // NCCLWATCH_HOOK_TIMEOUT
  bool ptrace = false;                 // NCCLWATCH_PTRACE, sets PR_SET_PTRACER where Yama asks for it
  std::string metrics;                 // NCCLWATCH_METRICS, "[address]:port" or an absolute path, empty: none
  std::string metrics_token_file;      // NCCLWATCH_METRICS_TOKEN_FILE, empty: requests need no token
  std::string topology;                // NCCLWATCH_TOPOLOGY, path of a file in the syntax of Slurm's topology.conf
  double bubble = 0.2;                 // NCCLWATCH_BUBBLE, share of a step that stages of a pipeline may idle
  std::string redact;                  // NCCLWATCH_REDACT, comma-separated names of further secrets in arguments
  LogLevel log = LogLevel::kWarn;      // NCCLWATCH_LOG
  MpiChecks mpi_checks;                // NCCLWATCH_MPI_CHECKS
};

using Getenv = const char* (*)(const char*);

// Why the value of a variable does not count.
struct Complaint {
  std::string text;      // one line: variable, value, what is wrong, what is accepted
  std::string variable;  // empty where an administrator's rule decided
  std::string accepted;

  bool operator==(const Complaint&) const = default;
};

// Complaints may be null. Variables of the contract that this version does not act on (NCCLWATCH_NUMERICS) complain
// when set to other than their default.
Settings FromEnvironment(Getenv getenv, std::vector<Complaint>* complaints);
Settings OfThisProcess(std::vector<Complaint>* complaints = nullptr);

struct Rules;
// Within these rules instead of those of this machine.
Settings FromEnvironment(Getenv getenv, const Rules& rules, std::vector<Complaint>* complaints);

}  // namespace ncclwatch::settings
