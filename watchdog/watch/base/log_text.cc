#include "watchdog/watch/base/log_text.h"

#include <fmt/format.h>

#include "core/model/ignore.h"
#include "core/model/text.h"

namespace ncclwatch::watch {

std::string Headline(const diagnosis::Finding& finding) {
  return fmt::format("{} ({}): {}", Name(finding.kind), Name(finding.certainty), diagnosis::Ranks(finding.culprits));
}

std::string OutcomeOf(const diagnosis::Diagnosis& judged) {
  if (!judged.clean()) return Headline(judged.findings.front());
  return judged.ignored.empty() ? "nothing is wrong" : IgnoredText(judged.ignored);
}

std::string StateText(format::Observed state) {
  using format::Observed;
  switch (state) {
    case Observed::kHidden: return "cannot be seen as alive or dead for certain";
    case Observed::kStopped: return "is stopped by a signal";
    case Observed::kTraced: return "is stopped by a debugger";
    case Observed::kFrozen: return "is frozen by its cgroup";
    case Observed::kStuck: return "is stuck in the kernel";
    case Observed::kSilent: return "is runnable, but its heartbeat has stopped";
    case Observed::kDumping: return "is writing a core file";
    default: return "runs";
  }
}

std::string EndText(const evidence::ExitWord& exit) {
  if ((exit.flags & format::kExitKnown) == 0) return "how it ended is not known";
  if (exit.signal == 0) return fmt::format("exit status {}", exit.status);
  return fmt::format("killed by signal {}{}{}", exit.signal,
                     (exit.flags & format::kExitCore) != 0 ? ", core dumped" : "",
                     (exit.flags & format::kExitOutOfMemory) != 0 ? ", out of memory" : "");
}

}  // namespace ncclwatch::watch
