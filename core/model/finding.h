// What a diagnosis says, in the terms of the documented JSON (ncclwatch.diagnosis/1). fields.h lists the fields.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ncclwatch::diagnosis {

enum class Kind {
  kDeadRank,
  kEarlyExit,
  kMissingParticipant,
  kOrderMismatch,
  kArgumentMismatch,
  kPointToPointMismatch,
  kDeadlock,
  kInitializationHang,
  kFrozenProcess,
  kDeviceStall,
  kTransportStall,
  kLibraryError,
  kOutOfMemory,
  kStepMismatch,
  kMissingFinalize,
  kInvalidArgument,
  kRequestError,
  kResourceLeak,
  kEpochError,
  kMessageRace,

  // Slow, not stopped: slow/find.h finds them, and no rule.
  kStraggler,
  kSlowCompute,
  kSlowCommunication,
  kRegression,
  kNumericFault,
  kLossSpike,
  kReplicaDivergence,
  kMemoryGrowth,
  kNotLearning,
  kLossPlateau,
  kCheckpointOverdue,
  kStarvedInput,        // a straggler, and why
  kBlockingCheckpoint,  // likewise
  kPipelineBubble,
  kEnvironmentSkew,
};
constexpr bool IsSlow(Kind kind) { return kind >= Kind::kStraggler; }
// What a job leaves behind that has done its work: nothing stops or slows down over it.
constexpr bool IsHarmless(Kind kind) { return kind == Kind::kResourceLeak; }
enum class Certainty { kSuspected, kLikely, kCertain };
enum class CallState { kNotCalled, kEntered, kReturned, kStarted, kFinished, kFailed, kNotObserved };

std::string_view Name(Kind kind);            // "dead_rank", ...
std::string_view Name(Certainty certainty);  // "certain", ...
std::string_view Name(CallState state);      // "not_called", ...
// The one with that name; none if there is none. Values are numbered from 0 without gaps.
template <typename Enum>
std::optional<Enum> Named(std::string_view name) {
  for (int i = 0; Name(static_cast<Enum>(i)) != "?"; ++i)
    if (Name(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  return std::nullopt;
}

struct Exit {
  std::optional<int> signal;
  std::optional<int> status;
  bool core = false;
  bool out_of_memory = false;

  bool operator==(const Exit&) const = default;
};

// What a process said of its own end, as far as it has to do with it.
struct SignalWords {
  int signal = 0;
  int code = 0;  // si_code
  std::uint64_t address = 0;
  std::uint32_t thread = 0;
  std::string thread_name;
  bool handled = false;             // by a handler of the application's own
  std::vector<std::string> frames;  // "train+0x1234", innermost first

  bool operator==(const SignalWords&) const = default;
};
struct ExceptionWords {
  std::string language;  // "c++", "python"
  std::string type, message, place;

  bool operator==(const ExceptionWords&) const = default;
};
struct AllocationWords {
  std::string function;
  std::uint64_t bytes = 0;
  int device = -1;                                       // -1 unknown
  std::optional<std::uint64_t> free_bytes, total_bytes;  // of the device; none: unknown

  bool operator==(const AllocationWords&) const = default;
};
struct ErrorWords {
  std::string op;  // empty if asynchronous
  std::string result, text;
  bool asynchronous = false;

  bool operator==(const ErrorWords&) const = default;
};
struct LastWords {
  std::optional<SignalWords> signal;
  std::optional<ExceptionWords> exception;
  std::optional<AllocationWords> allocation;
  std::optional<ErrorWords> error;

  bool operator==(const LastWords&) const = default;
};

struct Gpu {
  std::string uuid;        // "GPU-5c1f...", as nvidia-smi prints it
  std::string pci_bus_id;  // "0000:3B:00.0"
  int index = -1;          // of CUDA, in its process; -1: not known

  bool operator==(const Gpu&) const = default;
};

struct Culprit {
  int rank = -1;  // job rank
  std::string host;
  std::optional<std::uint32_t> pid;
  std::uint64_t start_time = 0;  // which process that pid was, 0 unknown
  std::optional<int> local_rank;
  std::string node;  // what the scheduler calls the machine, else its host
  std::optional<Gpu> gpu;
  std::optional<Exit> exit;
  std::optional<LastWords> last_words;
  std::vector<std::string> where;  // frames in which it stood, innermost first; empty where nobody looked
  std::vector<std::string> state;  // what held it up then, sentences, most telling first

  bool operator==(const Culprit&) const = default;
};

struct CommunicatorName {
  std::uint64_t id = 0;
  std::string label;
  std::uint32_t size = 0;
  std::vector<int> members;  // job ranks, ascending; -1 where unknown

  bool operator==(const CommunicatorName&) const = default;
};

struct PeerName {
  int communicator_rank = -1;
  int rank = -1;

  bool operator==(const PeerName&) const = default;
};

// A call site in a file, and its line: of Python as the box has it; else where somebody has read the file's debug
// information, which the watchdog does not, in the host's process.
struct SourcePlace {
  std::string module;        // path of the program or library; empty: not known
  std::uint64_t offset = 0;  // in it, just before the return address, as addr2line takes it
  std::string file;          // empty: not known
  int line = 0;
  std::string function;
  bool on_main_thread = false;  // the calling thread ran no Python of the program: the main thread stood here
  std::int64_t real_ns = 0;     // CLOCK_REALTIME when the module was named

  bool operator==(const SourcePlace&) const = default;
};

// One side of a disagreement: the ranks that did the same.
struct CallSummary {
  std::vector<int> ranks;
  std::uint64_t communicator = 0;
  std::string label;  // of the communicator
  std::uint64_t position = 0;
  std::optional<std::string> op;  // "AllReduce", ...; none: not called
  std::optional<std::uint64_t> count;
  std::optional<std::string> dtype;
  std::optional<std::string> reduction;
  std::optional<int> root;
  std::string payload;  // what it carries, as the program said: "DDP bucket 0 (0.weight, 0.bias)"; empty: not known
  std::optional<PeerName> peer;
  std::optional<std::uint64_t> group;
  std::optional<std::uint64_t> stream;
  std::optional<std::uint32_t> thread;
  std::optional<std::uint64_t> site;     // return address in the application, of the first of the ranks
  std::optional<std::string> site_text;  // "train+0x1234" where the box names it, else the address
  std::optional<SourcePlace> source;     // of the site; none: in no module
  CallState state = CallState::kNotCalled;
  bool mpi = false;  // it enqueues nothing: what has returned is over, or under way with a request
  std::optional<double> elapsed_s;
  std::optional<std::string> result;

  bool operator==(const CallSummary&) const = default;
};

// Which step of its training a rank was in: its program's number, else as its own repeated calls tell.
struct Step {
  int rank = -1;
  std::uint64_t number = 0;           // from 0
  bool exact = false;                 // else worked out from positions: its ring has lost the first steps
  std::optional<std::uint64_t> call;  // in the step, from 1; none: between two steps, or where they begin is not known
  std::uint64_t calls = 0;            // of one step

  bool operator==(const Step&) const = default;
};

// Of slow kinds: since when.
struct Onset {
  std::uint64_t step = 0;
  std::int64_t at_ns = 0;     // CLOCK_REALTIME
  bool since_before = false;  // or earlier: what is known begins there

  bool operator==(const Onset&) const = default;
};

// ... and what became of which figure.
struct Effect {
  std::string metric, unit;
  std::optional<double> before, after;  // none: no number

  bool operator==(const Effect&) const = default;
};

// What the culprits of a slow kind have in common, and nobody else has.
struct SharedBy {
  std::vector<std::string> hosts;  // all of whose ranks they are
  std::optional<int> rail;         // GPUs of this number on their hosts
  std::string switch_name;         // empty: none
  std::vector<int> pair;           // two job ranks, or none

  bool operator==(const SharedBy&) const = default;
};

// A figure that a sentence of the evidence tells. Programs read it here: no code reads a sentence.
struct Fact {
  std::string name, unit;  // unit "1": a ratio or a count
  double value = 0;

  bool operator==(const Fact&) const = default;
};

// How much the gradient's norm had risen in the step before a number was not finite, times its level; from kBlowUp on
// the training itself blew up.
inline constexpr char kGradientRise[] = "gradient_rise";
inline constexpr double kBlowUp = 10;

struct Finding {
  Kind kind{};
  Certainty certainty{};
  std::vector<int> culprits;  // job ranks, ascending
  std::vector<Culprit> culprit_details;
  std::vector<int> victims;
  std::optional<CommunicatorName> communicator;
  std::optional<std::uint64_t> position;
  std::optional<Step> step;  // of the call at the position
  std::vector<CallSummary> calls;
  std::int64_t began_at_ns = 0;          // CLOCK_REALTIME
  std::int64_t detected_at_ns = 0;       // CLOCK_REALTIME
  std::optional<std::size_t> caused_by;  // index of another finding
  // Not all living members have arrived at the position: who is the culprit may still change. A live caller waits a
  // moment for the others before it publishes.
  bool unsettled = false;
  // Of slow kinds alone.
  std::optional<Onset> onset;
  std::optional<Effect> effect;
  SharedBy shared_by;
  std::optional<double> share_lost;  // of the step time
  std::int64_t late_ns = 0;          // of a straggler, in a step in which it is late
  std::string summary;
  std::vector<Fact> facts;
  std::vector<std::string> evidence;
  std::vector<std::string> machine_lines;  // those of them that quote error counters of machines
  std::vector<std::string> next_steps;

  bool operator==(const Finding&) const = default;
};

// What became of a rule in this diagnosis. That it found nothing is a proof only if it ran on all that the job did.
struct CheckedRule {
  enum class Result { kFound, kNothing, kSkipped };
  enum class Covers { kAll, kPart, kNone };

  std::string rule;         // "deadlocks", ...
  std::vector<Kind> makes;  // kinds of its findings
  bool ran = false;
  bool applies = true;  // false: no job like this one can have what it looks for
  Covers covers = Covers::kNone;
  Result result = Result::kSkipped;
  std::string why;  // it did not run, or on a part alone; empty: it ran on all

  bool operator==(const CheckedRule&) const = default;
};
std::string_view Name(CheckedRule::Result result);  // "found", ...
std::string_view Name(CheckedRule::Covers covers);  // "all", ...

// Findings that the user knows and has listed (NCCLWATCH_IGNORE).
struct IgnoredFindings {
  std::string line;  // of the list
  int findings = 0;  // left out over it

  bool operator==(const IgnoredFindings&) const = default;
};

struct Diagnosis {
  std::string job;
  std::uint32_t attempt = 0;
  int world_size = 0;
  int processes = 0;
  std::vector<std::string> hosts;  // empty if it is told by dumps of another recorder
  int watched = 0;
  int expected = 0;
  std::vector<int> unseen_ranks;
  std::vector<std::string> notes;  // what is not watched, or could not be read
  // Parts of the job that were not seen and could show a fault. Without findings the job is then not called healthy.
  // Each is one of the notes too.
  std::vector<std::string> missing;
  std::vector<CheckedRule> checked;  // all rules
  std::vector<Finding> findings;     // the root cause first
  std::vector<IgnoredFindings> ignored;
  // Without a finding that could be why: how the job stands still, one of the notes. Empty: it does not.
  std::string unexplained;

  bool clean() const { return findings.empty(); }
  // Nothing has stopped or slowed the job. It may have left something behind.
  bool harmless() const {
    return std::all_of(findings.begin(), findings.end(), [](const Finding& one) { return IsHarmless(one.kind); });
  }
  bool healthy() const { return harmless() && missing.empty() && processes > 0; }

  bool operator==(const Diagnosis&) const = default;
};

}  // namespace ncclwatch::diagnosis
