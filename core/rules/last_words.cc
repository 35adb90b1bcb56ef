#include "core/rules/last_words.h"

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include "core/view/process_end.h"

namespace ncclwatch::diagnosis {
namespace {

using format::Language;
using functions::Function;
using reader::Call;
using reader::Exception;
using reader::FailedAllocation;
using reader::FatalSignal;
using reader::NcclError;
using reader::Words;

// What went wrong this long before a process ended has to do with it: handlers print, save and clean up in between.
constexpr std::int64_t kConnectedNs = 10'000'000'000;
// ... if its last words name it.
constexpr std::int64_t kNamedNs = 120'000'000'000;
// A signal that a handler of the application took is the end's if the end comes this soon.
constexpr std::int64_t kHandledNs = 5'000'000'000;

bool IsUse(const Call& call) {
  return functions::IsCollective(call.function) || call.function == Function::ncclSend ||
         call.function == Function::ncclRecv;
}

// When the process last went on working with NCCL, by its box's clock.
std::int64_t LastUse(const reader::BoxImage& box) {
  std::int64_t last = 0;
  for (const reader::Communicator& comm : box.communicators) last = std::max(last, comm.last.entered_ns);
  for (const Call& call : box.calls)
    if (IsUse(call)) last = std::max(last, call.entered_ns);
  return last;
}

std::int64_t EndOf(const Process& process) {
  return process.outcome.gone() ? process.outcome.observed_ns - process.shift_ns : INT64_MAX;
}

bool Connected(const Process& process, std::int64_t at_ns, std::int64_t within_ns) {
  return !process.outcome.gone() || EndOf(process) - at_ns <= within_ns;
}

void ChooseSignals(const Process& process, DeathCause* said) {
  const bool died_of_one = process.outcome.gone() && process.outcome.signal.has_value();
  for (const FatalSignal& signal : process.box->words.signals) {
    const bool handled = (signal.flags & format::kSignalHandled) != 0;
    if (!Connected(process, signal.at_ns, handled ? kHandledNs : kConnectedNs) || !process.outcome.gone()) continue;
    if (died_of_one && signal.signal == *process.outcome.signal)
      said->signal = &signal;
    else if (handled)
      said->handled = &signal;
  }
  if (said->handled != nullptr && said->signal != nullptr && said->handled->at_ns > said->signal->at_ns)
    said->handled = nullptr;
}

bool Names(const Exception* exception, std::string_view what) {
  if (exception == nullptr) return false;
  std::string text = exception->type + " " + exception->message;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text.find(what) != std::string::npos;
}

const FailedAllocation* ChooseAllocation(const Process& process, const Exception* exception) {
  const FailedAllocation* last = nullptr;
  if (process.box->words.allocations.empty()) return last;
  const std::int64_t within_ns = Names(exception, "memory") ? kNamedNs : kConnectedNs;
  const std::int64_t used = LastUse(*process.box);
  for (const FailedAllocation& failed : process.box->words.allocations)
    if (failed.recovered_ns == 0 && failed.at_ns >= used && Connected(process, failed.at_ns, within_ns)) last = &failed;
  return last;
}

// Used again afterwards without an error, or taken down by the process itself before: what NCCL says after an abort is
// the abort's doing.
bool IsSettled(const reader::BoxImage& box, const NcclError& error) {
  return std::any_of(box.calls.begin(), box.calls.end(), [&](const Call& call) {
    const bool same = call.communicator == error.communicator && call.generation == error.generation;
    const bool ends = call.function == Function::ncclCommAbort || call.function == Function::ncclCommRevoke;
    if (same && ends) return call.entered_ns <= error.at_ns;
    if (!same && error.communicator != format::kNoCommunicator) return false;
    return IsUse(call) && call.entered_ns > error.at_ns && !IsError(call);
  });
}

const NcclError* ChooseError(const Process& process, const Exception* exception) {
  const std::int64_t within_ns = Names(exception, "nccl") ? kNamedNs : kConnectedNs;
  for (const NcclError& error : process.box->words.errors)
    if (!IsSettled(*process.box, error) && Connected(process, error.at_ns, within_ns)) return &error;
  return nullptr;
}

bool EndsWith(const std::string& text, std::string_view end) { return std::string_view(text).ends_with(end); }

bool IsOutOfMemory(const Exception& exception) {
  if (exception.language == Language::kPython)
    return exception.type == "MemoryError" || EndsWith(exception.type, "OutOfMemoryError") ||
           EndsWith(exception.type, "_ArrayMemoryError");
  return exception.type == "std::bad_alloc" || EndsWith(exception.type, "OutOfMemoryError");
}

bool Explains(const Process& process) { return process.outcome.violent() || process.outcome.orderly(); }

}  // namespace

bool DeathCause::out_of_memory() const {
  return allocation != nullptr || (exception != nullptr && IsOutOfMemory(*exception));
}

// torch raises it in its handler of SIGCHLD, wherever the main thread is then.
bool DeathCause::worker() const {
  return exception != nullptr && exception->language == Language::kPython &&
         exception->message.starts_with("DataLoader worker (pid");
}

bool DeathCause::of_a_peer() const {
  // Of gloo, of torch's stores and process groups, of sockets.
  constexpr std::string_view kPhrases[] = {"failed to pass monitoredBarrier", "successfully reached monitoredBarrier",
                                           "Connection closed by peer",       "Connection reset by peer",
                                           "Application timeout caused pair", "Broken pipe",
                                           "remote process exited",           "Timed out waiting"};
  return exception != nullptr && exception->language == Language::kPython &&
         std::any_of(std::begin(kPhrases), std::end(kPhrases),
                     [&](std::string_view phrase) { return exception->message.find(phrase) != std::string::npos; });
}

// "[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 20000 ms"
std::vector<int> DeathCause::absent() const {
  std::vector<int> ranks;
  const std::size_t end =
      exception == nullptr ? std::string::npos : exception->message.find(" failed to pass monitored");
  if (end == std::string::npos) return ranks;
  const std::string before = exception->message.substr(0, end);
  const std::size_t at = before.rfind("Ranks ");
  if (at == std::string::npos) return ranks;
  const char* next = before.data() + at + std::string_view("Ranks ").size();
  const char* const last = before.data() + before.size();
  while (next < last) {
    int rank = 0;
    const auto [after, trouble] = std::from_chars(next, last, rank);
    if (trouble != std::errc() || rank < 0) break;
    ranks.push_back(rank);
    next = std::find_if(after, last, [](char c) { return c >= '0' && c <= '9'; });
  }
  return ranks;
}

DeathCause ExplainDeath(const Process& process) {
  DeathCause said;
  const Words& words = process.box->words;
  ChooseSignals(process, &said);
  if (process.outcome.gone() && process.outcome.violent() && !words.exceptions.empty())
    said.exception = &words.exceptions.back();
  said.allocation = ChooseAllocation(process, said.exception);
  said.error = ChooseError(process, said.exception);
  return said;
}

Kind KindOfDeath(const Process& process, const DeathCause& said) {
  if (process.outcome.out_of_memory || (Explains(process) && said.out_of_memory())) return Kind::kOutOfMemory;
  // Killed from outside: whatever went wrong in it before, that ended it.
  const bool killed = process.outcome.signal == SIGKILL;
  if (Explains(process) && !killed && said.error != nullptr) return Kind::kLibraryError;
  return process.outcome.orderly() && AbortOf(*process.box) == nullptr ? Kind::kEarlyExit : Kind::kDeadRank;
}

std::optional<std::int64_t> WentWrongAt(const Process& process, const DeathCause& said) {
  switch (KindOfDeath(process, said)) {
    case Kind::kOutOfMemory:
      if (said.allocation == nullptr) return std::nullopt;
      return process.At(said.allocation->at_ns);
    case Kind::kLibraryError: return process.At(said.error->at_ns);
    default: return std::nullopt;
  }
}

}  // namespace ncclwatch::diagnosis
