#include "core/rules/deaths.h"

#include <signal.h>

#include <algorithm>
#include <tuple>

#include "core/rules/killed_with_others.h"
#include "core/view/ends.h"
#include "core/view/mpi_ended.h"
#include "core/view/process_end.h"

namespace ncclwatch::diagnosis {
namespace {

using format::CommunicatorState;
using format::Observed;

// A launcher ends the survivors within this time of the first death; what it ends politely is no culprit.
constexpr std::int64_t kSameEndNs = 500'000'000;

bool UsesShrink(const View& view, const Member& member) {
  for (const reader::Call& call : view.process(member).box->calls) {
    if (call.function == functions::Function::ncclCommShrink && call.communicator == member.comm->index &&
        call.generation == member.comm->generation) {
      return true;
    }
  }
  return false;
}

// Survivors that revoke, abort or shrink are getting over it.
bool Recovering(const View& view, const CommView& comm) {
  return std::any_of(comm.members.begin(), comm.members.end(), [&](const Member& member) {
    if (view.process(member).outcome.gone()) return false;
    return member.comm->state == CommunicatorState::kRevoked || member.comm->state == CommunicatorState::kAborted ||
           UsesShrink(view, member);
  });
}

// By communicator: who is getting over it waits for nobody.
std::vector<bool> RecoveringAll(const View& view) {
  std::vector<bool> all;
  for (const CommView& comm : view.comms) all.push_back(Recovering(view, comm));
  return all;
}

const CommView* AffectedComm(const View& view, const std::vector<bool>& recovering, int process) {
  for (const CommView& comm : view.comms) {
    if (comm.size < 2) continue;
    for (const Member& member : comm.members) {
      if (member.process != process) continue;
      const CommunicatorState state = member.comm->state;
      if (state != CommunicatorState::kReady && state != CommunicatorState::kInitializing) continue;
      if (!recovering[static_cast<std::size_t>(&comm - view.comms.data())]) return &comm;
    }
  }
  return nullptr;
}

// What NCCL says when another rank is not there any more.
bool BlamesAPeer(const reader::NcclError& error) {
  constexpr std::int32_t kSystem = 2, kRemote = 6;  // ncclResult_t
  return error.result == kSystem || error.result == kRemote;
}

// It ended of an error that somebody else's death may have brought about.
bool FollowsFrom(const View& view, const Death& death, const ProcessOutcome& other) {
  const Process& process = view.processes[death.process];
  return death.said.error != nullptr && KindOfDeath(process, death.said) == Kind::kLibraryError &&
         BlamesAPeer(*death.said.error) && other.last_sign_ns <= process.At(death.said.error->at_ns);
}

bool OwnDoing(const ProcessOutcome& outcome) { return outcome.violent() && outcome.signal != SIGKILL; }

// Too close together for their order to be told from when they were seen, and neither was seen alive after the other.
bool Unordered(const ProcessOutcome& a, const ProcessOutcome& b) {
  return std::abs(a.observed_ns - b.observed_ns) <= kOrderableNs &&
         std::max(a.last_sign_ns, b.last_sign_ns) <= std::min(a.observed_ns, b.observed_ns);
}

// Launchers kill what is left: where the first to be seen was killed, the one beside it that crashed by itself was
// first. Unless it crashed because another was gone, which may be seen later.
void PutCauseFirst(const View& view, std::vector<Death>* deaths) {
  if (deaths->empty()) return;
  const auto outcome = [&](const Death& death) -> const ProcessOutcome& {
    return view.processes[death.process].outcome;
  };
  const auto lost = std::find_if(deaths->begin() + 1, deaths->end(), [&](const Death& other) {
    return FollowsFrom(view, deaths->front(), outcome(other)) && !FollowsFrom(view, other, outcome(deaths->front())) &&
           !outcome(other).polite() && !outcome(other).orderly();
  });
  if (lost != deaths->end()) {
    std::rotate(deaths->begin(), lost, lost + 1);
    return;
  }
  const ProcessOutcome& first = outcome(deaths->front());
  if (OwnDoing(first)) return;
  const auto cause = std::find_if(deaths->begin(), deaths->end(), [&](const Death& death) {
    return OwnDoing(outcome(death)) && Unordered(first, outcome(death)) && !FollowsFrom(view, death, first);
  });
  if (cause != deaths->end()) std::rotate(deaths->begin(), cause, cause + 1);
}

struct Killer {
  const Process* by = nullptr;
  std::int64_t at_ns = 0;
};

// Asked once: of a large job that ends as a whole each process would ask all others.
std::vector<Killer> KillersOf(const View& view) {
  std::vector<Killer> killers;
  for (const Process& process : view.processes) {
    const DeathCause said = ExplainDeath(process);
    if (said.error != nullptr && BlamesAPeer(*said.error)) killers.push_back({&process, process.At(said.error->at_ns)});
  }
  return killers;
}

bool IsBlamed(const std::vector<Killer>& killers, const Process& process) {
  return std::any_of(killers.begin(), killers.end(), [&](const Killer& killer) {
    return killer.by != &process && process.outcome.last_sign_ns <= killer.at_ns;
  });
}

}  // namespace

std::vector<Death> Deaths(const View& view, const WaitGraph& graph) {
  std::vector<Death> deaths;
  std::vector<bool> recovering;
  std::vector<Killer> killers;
  for (std::size_t i = 0; i < view.processes.size(); ++i) {
    const Process& process = view.processes[i];
    if (!process.outcome.gone()) continue;
    if (deaths.empty()) {
      recovering = RecoveringAll(view);
      killers = KillersOf(view);
    }
    Death death;
    death.process = static_cast<int>(i);
    death.affected_comm = AffectedComm(view, recovering, death.process);
    death.said = ExplainDeath(process);
    death.blamed = IsBlamed(killers, process);
    death.ended_ns = EndedAt(process);
    for (const int node : process.nodes) {
      for (const int index : graph.in[node]) {
        if (!recovering[graph.waits[index].comm]) death.waits.push_back(&graph.waits[index]);
      }
    }
    deaths.push_back(std::move(death));
  }
  const auto key = [&](const Death& death) {
    return std::make_tuple(death.ended_ns, view.processes[death.process].outcome.order);
  };
  std::stable_sort(deaths.begin(), deaths.end(), [&](const Death& a, const Death& b) { return key(a) < key(b); });
  PutCauseFirst(view, &deaths);
  return deaths;
}

namespace {

bool Alone(const View& view, const Process& process) {
  return std::none_of(view.processes.begin(), view.processes.end(), [&](const Process& other) {
    return &other != &process && other.outcome.ended() &&
           std::abs(other.outcome.observed_ns - process.outcome.observed_ns) <= kSameEndNs;
  });
}

bool DiedAlone(const View& view, const Process& process) {
  return view.now_ns - process.outcome.observed_ns > kSameEndNs && Alone(view, process);
}

// Somebody died so lately that others may follow. By their heartbeats: who looks from outside sees all deaths only now.
bool StillDying(const View& view) {
  return std::any_of(view.processes.begin(), view.processes.end(), [&](const Process& process) {
    return process.outcome.ended() && view.now_ns - process.outcome.last_sign_ns <= kSameEndNs;
  });
}

bool SomebodyUnseen(const View& view) { return static_cast<int>(view.nodes.size()) < view.expected; }

// It had done nothing for too long before it ended: perhaps for want of somebody whom nobody sees.
bool HadWaitedForTheUnseen(const View& view, const Process& process) {
  const std::int64_t worked_ns = LastWork(process);
  return SomebodyUnseen(view) && worked_ns > 0 &&
         process.outcome.observed_ns - worked_ns > view.snapshot->limits.suspect_after_ns;
}

// An orderly exit matters only to those who are in a call that it never made.
std::vector<const Wait*> NeverEntered(const View& view, const Death& death) {
  std::vector<const Wait*> waits;
  for (const Wait* wait : death.waits) {
    if (wait->what == WaitFor::kCollective) {
      const Member* left = view.comms[wait->comm].OfRank(wait->other_comm_rank);
      if (left != nullptr && left->entered > wait->position) continue;
    }
    waits.push_back(wait);
  }
  return waits;
}

}  // namespace

bool BlamesSomebodyElse(const View& view, const Process& process, const DeathCause& said) {
  if (said.error == nullptr || !BlamesAPeer(*said.error)) return false;
  const std::int64_t reported_ns = process.At(said.error->at_ns);
  return SomebodyUnseen(view) || std::any_of(view.processes.begin(), view.processes.end(), [&](const Process& other) {
           return &other != &process && !other.nodes.empty() && other.outcome.last_sign_ns < reported_ns;
         });
}

bool IsVerdictOfItsOwn(const View& view, const Death& death) {
  const Process& process = view.processes[death.process];
  return death.waits.empty() && process.outcome.status && *process.outcome.status != 0 &&
         HasLeftFinalize(*process.box) && death.said.nothing();
}

std::optional<Certainty> CertaintyOfDeath(const View& view, const Death& death) {
  const Process& process = view.processes[death.process];
  const ProcessOutcome& outcome = process.outcome;
  const bool waited = !death.waits.empty();
  // Of a job of one process nobody else has to say anything.
  const bool alone = view.expected == 1 && view.nodes.size() == 1 && outcome.signal && !outcome.polite();
  if (death.affected_comm == nullptr && !waited && !alone) return std::nullopt;
  if (outcome.orderly() && AbortOf(*process.box) == nullptr) {
    const std::vector<const Wait*> waits = NeverEntered(view, death);
    if (waits.empty()) return std::nullopt;
    const bool proven = std::any_of(waits.begin(), waits.end(), [](const Wait* wait) { return wait->proven; });
    return proven && outcome.what == Observed::kGone ? Certainty::kCertain : Certainty::kLikely;
  }
  if (outcome.polite()) {
    if (!waited || !DiedAlone(view, process)) return std::nullopt;
    return Certainty::kLikely;
  }
  if (IsVerdictOfItsOwn(view, death)) return std::nullopt;
  if (death.said.of_a_peer()) return Certainty::kSuspected;
  if (outcome.what != Observed::kGone) return Certainty::kLikely;
  const bool of_an_error = KindOfDeath(process, death.said) == Kind::kLibraryError;
  if (of_an_error && BlamesSomebodyElse(view, process, death.said)) return Certainty::kLikely;
  if (HadWaitedForTheUnseen(view, process)) return Certainty::kLikely;
  // Known by its node's summaries alone: it may have ended over an error that another rank is to killer for.
  if (process.box->from_summary && outcome.status) return Certainty::kLikely;
  if (outcome.violent() || outcome.orderly()) return FirstOfTheKilled(view, death);
  // How it ended is not known: perhaps somebody ends the whole job.
  if (death.blamed) return Certainty::kLikely;
  if (SomebodyLives(view)) {
    if (StillDying(view)) return std::nullopt;
    return waited && Alone(view, process) ? Certainty::kCertain : Certainty::kLikely;
  }
  constexpr std::int64_t kClearly = 200'000'000;  // more than a rank takes to end by a signal sent to all
  if (!SomebodyOutlived(view, process, kClearly)) return std::nullopt;
  return waited ? Certainty::kCertain : Certainty::kLikely;
}

}  // namespace ncclwatch::diagnosis
