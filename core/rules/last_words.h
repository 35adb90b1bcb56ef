// What a process said of its end (reader/words.h), weighed: what of it explains the end, what it is called, and how it
// is told. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/model/finding.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// Pointers lead into the process's box; null: nothing of the kind, or it has nothing to do with the end.
struct DeathCause {
  const reader::FatalSignal* signal = nullptr;           // that it died of
  const reader::FatalSignal* handled = nullptr;          // that a handler of its own took just before
  const reader::Exception* exception = nullptr;          // that nobody caught
  const reader::FailedAllocation* allocation = nullptr;  // it has not got over
  const reader::NcclError* error = nullptr;  // the first it has not got over, and has not brought about itself
  bool out_of_memory() const;                // by an allocation or an exception of that kind
  bool worker() const;                       // torch's exception about the end of a worker of a data loader
  bool of_a_peer() const;                    // an exception over what another rank did, or did not do
  std::vector<int> absent() const;           // ranks that torch's monitored barrier has missed
  bool nothing() const { return !signal && !handled && !exception && !allocation && !error; }
};
DeathCause ExplainDeath(const Process& process);

// What a death is called: out_of_memory and library_error before dead_rank and early_exit.
Kind KindOfDeath(const Process& process, const DeathCause& said);

// When it went wrong, on the view's clock: the failed allocation or the error, if that is what explains the death.
std::optional<std::int64_t> WentWrongAt(const Process& process, const DeathCause& said);

// "died of SIGABRT: uncaught std::runtime_error (no batch), in train+0x1234"; after "rank 2 (node7, pid 4711) ".
std::string HowItDied(const Process& process, const DeathCause& said);
// One line each: signal and frames, exception, allocation with its figures, NCCL's words.
std::vector<std::string> WordsAsEvidence(const Process& process, const DeathCause& said);
// None where the last words are no help.
std::vector<std::string> NextSteps(Kind kind, const Process& process, const DeathCause& said);
std::optional<LastWords> DescribeWords(const Process& process);

std::string AllocationText(const reader::FailedAllocation& failed);  // "2.0 GiB of memory on device 0 (cuMemAlloc)"
std::string ErrorText(const reader::NcclError& error);               // "system_error from AllReduce (\"...\")"

}  // namespace ncclwatch::diagnosis
