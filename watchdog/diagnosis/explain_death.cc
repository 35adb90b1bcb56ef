// dead_rank, early_exit: a process is gone. Deaths are ordered in time; what dies after the first is a consequence.
#include <signal.h>

#include <algorithm>
#include <map>
#include <set>

#include "watchdog/diagnosis/explain.h"
#include "watchdog/diagnosis/text.h"

namespace ncclwatch::diagnosis {
namespace {

using format::CommunicatorState;
using format::Observed;

// A launcher ends the survivors within this time of the first death; what it ends politely is no culprit.
constexpr std::int64_t kSameEndNs = 500'000'000;
// Deaths closer than this are not ordered by when they were seen.
constexpr std::int64_t kOrderableNs = 100'000'000;

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
    if (view.process(member).fate.gone()) return false;
    return member.comm->state == CommunicatorState::kRevoked || member.comm->state == CommunicatorState::kAborted ||
           UsesShrink(view, member);
  });
}

// The largest communicator with others in it that the process had not said goodbye to.
const CommView* Stake(const View& view, int process) {
  for (const CommView& comm : view.comms) {
    if (comm.size < 2) continue;
    for (const Member& member : comm.members) {
      if (member.process != process) continue;
      const CommunicatorState state = member.comm->state;
      if (state != CommunicatorState::kReady && state != CommunicatorState::kInitializing) continue;
      if (!Recovering(view, comm)) return &comm;
    }
  }
  return nullptr;
}

struct Death {
  int process = -1;
  const CommView* stake = nullptr;
  std::vector<const Wait*> waits;  // of the living for it
};

bool OwnDoing(const Fate& fate) { return fate.violent() && fate.signal != SIGKILL; }

// Too close together for their order to be told from when they were seen, and neither was seen alive after the other.
bool Unordered(const Fate& a, const Fate& b) {
  return std::abs(a.observed_ns - b.observed_ns) <= kOrderableNs &&
         std::max(a.last_sign_ns, b.last_sign_ns) <= std::min(a.observed_ns, b.observed_ns);
}

// Launchers kill what is left: where the first to be seen was killed, the one beside it that crashed by itself was
// first.
void PutCauseFirst(const View& view, std::vector<Death>* deaths) {
  if (deaths->empty()) return;
  const auto fate = [&](const Death& death) -> const Fate& { return view.processes[death.process].fate; };
  const Fate& first = fate(deaths->front());
  if (OwnDoing(first)) return;
  const auto cause = std::find_if(deaths->begin(), deaths->end(), [&](const Death& death) {
    return OwnDoing(fate(death)) && Unordered(first, fate(death));
  });
  if (cause != deaths->end()) std::rotate(deaths->begin(), cause, cause + 1);
}

std::vector<Death> Deaths(const View& view, const WaitGraph& graph) {
  std::vector<Death> deaths;
  for (std::size_t i = 0; i < view.processes.size(); ++i) {
    const Process& process = view.processes[i];
    if (!process.fate.gone()) continue;
    Death death;
    death.process = static_cast<int>(i);
    death.stake = Stake(view, death.process);
    for (const int node : process.nodes) {
      for (const int index : graph.in[node]) {
        if (!Recovering(view, view.comms[graph.waits[index].comm])) death.waits.push_back(&graph.waits[index]);
      }
    }
    deaths.push_back(std::move(death));
  }
  std::stable_sort(deaths.begin(), deaths.end(), [&](const Death& a, const Death& b) {
    return view.processes[a.process].fate.observed_ns < view.processes[b.process].fate.observed_ns;
  });
  PutCauseFirst(view, &deaths);
  return deaths;
}

bool Alone(const View& view, const Process& process) {
  return std::none_of(view.processes.begin(), view.processes.end(), [&](const Process& other) {
    return &other != &process && other.fate.gone() &&
           std::abs(other.fate.observed_ns - process.fate.observed_ns) <= kSameEndNs;
  });
}

bool DiedAlone(const View& view, const Process& process) {
  return view.now_ns - process.fate.observed_ns > kSameEndNs && Alone(view, process);
}

// Somebody died so lately that others may follow. By their heartbeats: who looks from outside sees all deaths only now.
bool StillDying(const View& view) {
  return std::any_of(view.processes.begin(), view.processes.end(), [&](const Process& process) {
    return process.fate.gone() && view.now_ns - process.fate.last_sign_ns <= kSameEndNs;
  });
}

bool SomebodyLives(const View& view) {
  return std::any_of(view.processes.begin(), view.processes.end(),
                     [](const Process& process) { return !process.fate.gone(); });
}

bool SomebodyOutlived(const View& view, const Process& process) {
  constexpr std::int64_t kClearly = 200'000'000;  // more than a rank takes to end by a signal sent to all
  return std::any_of(view.processes.begin(), view.processes.end(), [&](const Process& other) {
    return other.fate.last_sign_ns > process.fate.observed_ns + kClearly;
  });
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

std::optional<Certainty> Judge(const View& view, const Death& death) {
  const Process& process = view.processes[death.process];
  const Fate& fate = process.fate;
  const bool waited = !death.waits.empty();
  if (death.stake == nullptr && !waited) return std::nullopt;
  if (fate.orderly()) {
    const std::vector<const Wait*> waits = NeverEntered(view, death);
    if (waits.empty()) return std::nullopt;
    const bool proven = std::any_of(waits.begin(), waits.end(), [](const Wait* wait) { return wait->proven; });
    return proven && fate.what == Observed::kGone ? Certainty::kCertain : Certainty::kLikely;
  }
  if (fate.polite()) {
    if (!waited || !DiedAlone(view, process)) return std::nullopt;
    return Certainty::kLikely;
  }
  if (fate.what != Observed::kGone) return Certainty::kLikely;
  if (fate.violent()) return Certainty::kCertain;
  // How it ended is not known: perhaps somebody ends the whole job.
  if (SomebodyLives(view)) {
    if (StillDying(view)) return std::nullopt;
    return waited && Alone(view, process) ? Certainty::kCertain : Certainty::kLikely;
  }
  if (!SomebodyOutlived(view, process)) return std::nullopt;
  return waited ? Certainty::kCertain : Certainty::kLikely;
}

std::string HowText(const Fate& fate) {
  if (fate.what == Observed::kDumping) return "is writing a core file and will not come back";
  if (fate.out_of_memory) return "was killed by the kernel for want of memory";
  if (fate.signal == SIGKILL) return "was killed by SIGKILL";
  if (fate.signal) return "died of " + SignalName(*fate.signal) + (fate.core ? " (core dumped)" : "");
  if (fate.orderly()) return "exited normally (status 0)";
  if (fate.status) return "exited with status " + std::to_string(*fate.status);
  return "is gone, without a trace of how";
}

// The communicator and position that most waiters are in.
const Wait* MainWait(const std::vector<const Wait*>& waits) {
  std::map<std::pair<int, std::uint64_t>, int> votes;
  const Wait* best = nullptr;
  for (const Wait* wait : waits) {
    const int count = ++votes[{wait->comm, wait->position}];
    if (best == nullptr || count > votes[{best->comm, best->position}]) best = wait;
  }
  return best;
}

std::string WaitText(const View& view, const Wait& wait) {
  const CommView& comm = view.comms[wait.comm];
  if (wait.what == WaitFor::kJoin) return "the creation of " + CommText(comm);
  const std::string call = wait.call != nullptr ? CallText(*wait.call) : std::string("a collective");
  if (wait.what == WaitFor::kMessage)
    return call + ", message " + std::to_string(wait.position) + " on " + CommText(comm);
  return call + ", collective " + std::to_string(wait.position) + " of " + CommText(comm);
}

void AddNextSteps(const Fate& fate, Finding* finding) {
  std::vector<std::string>& steps = finding->next_steps;
  const std::string who = Ranks(finding->culprits);
  if (fate.orderly()) {
    steps.push_back("find why " + who +
                    " left its loop earlier: an uneven number of batches, a `break`, an early return");
    steps.push_back(
        "where ranks may have different numbers of batches, let them agree first (for example torch's Join)");
  } else if (fate.out_of_memory || fate.signal == SIGKILL) {
    steps.push_back("look for the killer: `dmesg -T | grep -i -e oom -e killed` on its host, then the scheduler's log");
    steps.push_back("if it was out of memory: host memory of data loaders and checkpoints is the usual cause");
  } else if (fate.signal) {
    steps.push_back("open its core file, or run it again with core files allowed (`ulimit -c unlimited`)");
    steps.push_back("read the last lines of its standard error");
  } else if (fate.status) {
    steps.push_back("read the last lines of the standard error of " + who +
                    ": an exception or a failed check ended it");
  } else {
    steps.push_back(
        "read its standard error and the launcher's log; `dmesg -T` on its host tells of a kill for memory");
  }
}

void AddLaterDeaths(const View& view, const Process& first, Finding* finding) {
  std::vector<int> later;
  std::int64_t soonest = INT64_MAX;
  for (const Process& other : view.processes) {
    if (&other == &first || !other.fate.gone() || other.fate.observed_ns < first.fate.observed_ns) continue;
    for (const int rank : RanksOf(view, other.nodes)) {
      if (!std::binary_search(finding->culprits.begin(), finding->culprits.end(), rank)) later.push_back(rank);
    }
    soonest = std::min(soonest, other.fate.observed_ns - first.fate.observed_ns);
  }
  if (later.empty()) return;
  finding->evidence.push_back(Ranks(SortedUnique(later)) + " ended after it, the first of them " + Seconds(soonest) +
                              " later: a consequence");
}

std::string Summary(const View& view, const Process& process, const Wait* wait, const Finding& finding) {
  std::string text = Capital(Ranks(finding.culprits)) + " (" + ProcessText(view, process) + ") ";
  if (finding.culprits.size() > 1 && finding.kind == Kind::kEarlyExit) {
    text = Capital(Ranks(finding.culprits)) + " (first: " + ProcessText(view, process) + ") ";
  }
  text += HowText(process.fate);
  if (wait == nullptr) return text + "; nobody waits for it yet.";
  return text + " while " + Ranks(finding.victims) + (finding.victims.size() == 1 ? " waits in " : " wait in ") +
         WaitText(view, *wait) + ".";
}

Finding Explain(const View& view, const WaitGraph& graph, const std::vector<const Death*>& deaths,
                Certainty certainty) {
  const Death& first = *deaths.front();
  const Process& process = view.processes[first.process];
  Finding finding;
  finding.kind = process.fate.orderly() ? Kind::kEarlyExit : Kind::kDeadRank;
  finding.certainty = certainty;
  std::vector<int> nodes;
  std::vector<const Wait*> waits;
  for (const Death* death : deaths) {
    const std::vector<int>& own = view.processes[death->process].nodes;
    nodes.insert(nodes.end(), own.begin(), own.end());
    waits.insert(waits.end(), death->waits.begin(), death->waits.end());
  }
  AddCulprits(view, RanksOf(view, nodes), &finding);
  AddVictims(view, graph, nodes, &finding);
  const Wait* wait = MainWait(waits);
  const CommView* comm = wait != nullptr ? &view.comms[wait->comm] : first.stake;
  if (comm != nullptr) finding.communicator = DescribeComm(*comm);
  if (wait != nullptr && wait->what == WaitFor::kCollective) {
    finding.position = wait->position;
    finding.calls = DescribeCalls(view, *comm, wait->position);
  }
  finding.began_at_ns = ToRealtime(view, std::min(view.now_ns, process.fate.observed_ns));
  finding.summary = Summary(view, process, wait, finding);
  finding.evidence.push_back("its black box's lock is free and its process is gone, seen " +
                             Seconds(std::max<std::int64_t>(0, view.now_ns - process.fate.observed_ns)) +
                             " ago; its last sign of life was " +
                             Seconds(std::max<std::int64_t>(0, view.now_ns - process.fate.last_sign_ns)) + " ago");
  if (process.fate.what != Observed::kGone) finding.evidence.back() = "the kernel is writing its core file";
  for (const int node : process.nodes) {
    finding.evidence.push_back(Ranks({view.nodes[node].rank}) + ": " + WhereText(view, view.nodes[node]));
  }
  if (!process.box->last_words.text.empty())
    finding.evidence.push_back("its last words: " + process.box->last_words.text);
  AddLaterDeaths(view, process, &finding);
  AddNextSteps(process.fate, &finding);
  return finding;
}

}  // namespace

std::vector<Finding> FindDeaths(const View& view, const WaitGraph& graph) {
  std::vector<Finding> findings;
  const std::vector<Death> deaths = Deaths(view, graph);
  std::vector<const Death*> early;  // all orderly exits that somebody waits for make one finding
  Certainty early_certainty = Certainty::kLikely;
  for (const Death& death : deaths) {
    const std::optional<Certainty> certainty = Judge(view, death);
    if (!certainty || view.processes[death.process].nodes.empty()) continue;
    if (view.processes[death.process].fate.orderly()) {
      early.push_back(&death);
      early_certainty = std::max(early_certainty, *certainty);
      continue;
    }
    if (early.empty()) findings.push_back(Explain(view, graph, {&death}, *certainty));
    break;  // later deaths are consequences
  }
  if (!early.empty() && findings.empty()) findings.push_back(Explain(view, graph, early, early_certainty));
  return findings;
}

}  // namespace ncclwatch::diagnosis
