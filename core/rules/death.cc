// dead_rank, early_exit, and what they are called where their last words explain them: out_of_memory, library_error.
#include <signal.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/model/text.h"
#include "core/rules/deaths.h"
#include "core/rules/killed_with_others.h"
#include "core/rules/last_words.h"
#include "core/rules/rules.h"
#include "core/view/mpi_ended.h"
#include "core/view/process_end.h"

namespace ncclwatch::diagnosis {
namespace {

using format::Observed;

// The communicator and position that most waiters are in, of several the one that was waited in first: what came after
// it may finish yet, where the dead had done its part.
const Wait* MainWait(const std::vector<const Wait*>& waits) {
  struct Place {
    int waiters = 0;
    const Wait* first = nullptr;
    bool Before(const Place& other) const {
      return waiters != other.waiters ? waiters > other.waiters : first->since_ns < other.first->since_ns;
    }
  };
  std::map<std::pair<int, std::uint64_t>, Place> places;
  for (const Wait* wait : waits) {
    Place& place = places[{wait->comm, wait->position}];
    ++place.waiters;
    if (place.first == nullptr || wait->since_ns < place.first->since_ns) place.first = wait;
  }
  const auto main = std::min_element(places.begin(), places.end(),
                                     [](const auto& a, const auto& b) { return a.second.Before(b.second); });
  return main == places.end() ? nullptr : main->second.first;
}

std::string WaitText(const View& view, const Wait& wait) {
  const CommView& comm = view.comms[wait.comm];
  if (wait.what == WaitFor::kJoin) return "the creation of " + CommText(comm);
  const std::string call = wait.call != nullptr ? CallText(*view.process(view.nodes[wait.waiter]).box, *wait.call)
                                                : std::string("a collective");
  if (wait.what == WaitFor::kEpoch) return call + " on " + CommText(comm);
  if (wait.what == WaitFor::kMessage)
    return call + ", message " + std::to_string(wait.position) + " on " + CommText(comm);
  return call + ", collective " + std::to_string(wait.position) + " of " + CommText(comm);
}

void AddNextSteps(const Process& process, const DeathCause& said, Finding* finding) {
  const ProcessOutcome& outcome = process.outcome;
  std::vector<std::string>& steps = finding->next_steps;
  steps = NextSteps(finding->kind, process, said);
  if (!steps.empty()) return;
  const std::string who = Ranks(finding->culprits);
  if (outcome.orderly()) {
    steps.push_back("find why " + who +
                    " left its loop earlier: an uneven number of batches, a `break`, an early return");
  } else if (outcome.signal == SIGKILL) {
    if (finding->certainty != Certainty::kCertain && IsBetweenInitAndFinalize(*process.box))
      steps.push_back("look for \"Abort(\" in the job's output: on an MPI error the launcher kills all ranks at once");
    steps.push_back(
        "find out who killed it: `dmesg -T | grep -i -e oom -e killed` on its host, then the scheduler's log");
    steps.push_back("if memory ran out: host memory of data loaders and checkpoints is the usual cause");
  } else if (outcome.signal) {
    steps.push_back("find who sent it " + SignalName(*outcome.signal) + ": the launcher's or the scheduler's log");
  } else if (outcome.status) {
    steps.push_back("read the last lines of the standard error of " + who +
                    ": an exception or a failed check ended it");
  } else {
    steps.push_back(
        "read its standard error and the launcher's log; `dmesg -T` on its host shows whether the kernel killed it to "
        "free memory");
  }
}

// Nobody else sends these.
bool CrashedByItself(const ProcessOutcome& outcome) {
  return outcome.signal == SIGSEGV || outcome.signal == SIGBUS || outcome.signal == SIGILL || outcome.signal == SIGFPE;
}

void AddLaterDeaths(const View& view, const Process& first, Finding* finding) {
  std::vector<int> later;
  std::int64_t soonest = INT64_MAX;
  for (const Process& other : view.processes) {
    if (&other == &first || !other.outcome.ended() || other.outcome.orderly()) continue;
    std::vector<int> ranks = RanksOf(view, other.nodes);
    std::erase_if(
        ranks, [&](int rank) { return std::binary_search(finding->culprits.begin(), finding->culprits.end(), rank); });
    if (!ranks.empty() && CrashedByItself(other.outcome)) {
      finding->evidence.push_back(Ranks(ranks) + " died after it of " + SignalName(*other.outcome.signal) +
                                  ", a fault of its own");
      continue;
    }
    later.insert(later.end(), ranks.begin(), ranks.end());
    if (ranks.empty()) continue;
    soonest = std::min(soonest, std::max<std::int64_t>(0, other.outcome.observed_ns - first.outcome.observed_ns));
  }
  if (later.empty()) return;
  finding->evidence.push_back(fmt::format("{} ended after it, the first of them {} later: a consequence",
                                          Ranks(SortedUnique(later)), Seconds(soonest)));
}

// Of what the kernel's order tells (reader::WitnessedEnd).
void AddOrder(const Process& process, Finding* finding) {
  const ProcessOutcome& outcome = process.outcome;
  if (outcome.order == 0) return;
  std::string line = "`ncclwatch run` saw it end";
  if (outcome.order == 1) line += " before every other process of its node";
  if (outcome.others_lived) {
    line += ", and saw the others alive after that, with no signal pending";
  } else if (outcome.signal == SIGKILL && finding->certainty != Certainty::kCertain) {
    line += "; but killing all ranks at once may leave the same traces";
  }
  finding->evidence.push_back(line);
}

constexpr char kNotOrdered[] = " within moments of one another; nobody saw which of them was first";

std::string Summary(const View& view, const Process& process, const DeathCause& said, const Wait* wait,
                    const Finding& finding) {
  std::string text = Capital(Ranks(finding.culprits)) + " (" + ProcessText(view, process) + ") ";
  if (finding.culprits.size() > 1) {
    text = Capital(Ranks(finding.culprits)) +
           (finding.kind == Kind::kEarlyExit ? " (first: " + ProcessText(view, process) + ") " : " ");
  }
  text += HowItDied(process, said);
  if (finding.culprits.size() > 1 && finding.kind == Kind::kDeadRank) text += kNotOrdered;
  if (wait == nullptr) return text + (view.expected == 1 ? "." : "; no rank waits for it yet.");
  // What an exception says ends as it likes.
  return text + (said.exception != nullptr ? "," : "") + " while " + Ranks(finding.victims) +
         (finding.victims.size() == 1 ? " waits in " : " wait in ") + WaitText(view, *wait) + ".";
}

Finding Explain(const View& view, const WaitGraph& graph, const std::vector<const Death*>& deaths,
                Certainty certainty) {
  const Death& first = *deaths.front();
  const Process& process = view.processes[first.process];
  Finding finding;
  finding.kind = KindOfDeath(process, first.said);
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
  const CommView* comm = wait != nullptr ? &view.comms[wait->comm] : first.affected_comm;
  if (comm != nullptr) finding.communicator = DescribeComm(*comm);
  if (wait != nullptr && wait->what == WaitFor::kCollective) {
    finding.position = wait->position;
    finding.calls = DescribeCalls(view, *comm, wait->position);
  }
  const std::int64_t began_ns = WentWrongAt(process, first.said).value_or(first.ended_ns);
  finding.began_at_ns = ToRealtime(view, std::min(view.now_ns, began_ns));
  finding.summary = Summary(view, process, first.said, wait, finding);
  finding.evidence = WordsAsEvidence(process, first.said);
  const auto ago = [&](std::int64_t ns) { return Seconds(std::max<std::int64_t>(0, view.now_ns - ns)); };
  finding.evidence.push_back(fmt::format(
      "its process is gone and the lock of its black box is free, seen {} ago; its last sign of life was {} ago",
      ago(process.outcome.observed_ns), ago(process.outcome.last_sign_ns)));
  if (process.outcome.what == Observed::kDumping) finding.evidence.back() = "the kernel is writing its core file";
  if (process.outcome.what == Observed::kClosed)
    finding.evidence.back() =
        "its node closed the connection of its leader, and no process of the node has come back: no process was left "
        "there to see how it ended";
  for (const int node : process.nodes) {
    finding.evidence.push_back(Ranks({view.nodes[node].rank}) + ": " + WhereText(view, view.nodes[node]));
  }
  if (!process.box->last_words.text.empty())
    finding.evidence.push_back("its last words: " + process.box->last_words.text);
  AddOrder(process, &finding);
  AddLaterDeaths(view, process, &finding);
  AddNextSteps(process, first.said, &finding);
  return finding;
}

// Ranks that a monitored barrier has missed, as the exception of one that did come says, and why.
std::optional<Finding> FindAbsent(const View& view, const WaitGraph& graph, const std::vector<Death>& deaths) {
  const auto teller =
      std::find_if(deaths.begin(), deaths.end(), [](const Death& death) { return !death.said.absent().empty(); });
  const bool others = std::any_of(deaths.begin(), deaths.end(), [&](const Death& death) {
    const ProcessOutcome& outcome = view.processes[death.process].outcome;
    return !death.said.of_a_peer() && !outcome.orderly() && !outcome.polite() && outcome.signal != SIGKILL;
  });
  if (teller == deaths.end() || others) return std::nullopt;
  Finding finding = Explain(view, graph, {&*teller}, Certainty::kLikely);
  const std::string told = finding.summary;
  finding.victims = finding.culprits;
  finding.culprits.clear();
  finding.culprit_details.clear();
  AddCulprits(view, teller->said.absent(), &finding);
  std::vector<std::string> ends;
  bool orderly = !finding.culprits.empty();
  for (const int rank : finding.culprits) {
    const auto node = view.node_of_rank.find(rank);
    const Process* const process =
        node == view.node_of_rank.end() ? nullptr : &view.process(view.nodes[static_cast<std::size_t>(node->second)]);
    orderly = orderly && process != nullptr && process->outcome.orderly();
    if (process != nullptr)
      ends.push_back(Ranks({rank}) + ": " + WhereText(view, view.nodes[static_cast<std::size_t>(node->second)]));
    if (process != nullptr && process->outcome.gone())
      ends.back() += "; it " + HowItDied(*process, ExplainDeath(*process));
  }
  finding.kind = orderly ? Kind::kEarlyExit : Kind::kMissingParticipant;
  // In a smaller group torch counts ranks in the group.
  if (!orderly) finding.certainty = Certainty::kSuspected;
  finding.summary =
      fmt::format("{} did not come to torch's monitored barrier. {}", Capital(Ranks(finding.culprits)), told);
  finding.evidence.insert(finding.evidence.begin(), ends.begin(), ends.end());
  finding.next_steps = {fmt::format(
      "look at where {} stood, or why it left: a branch, an early return, a lock or a file", Ranks(finding.culprits))};
  return finding;
}

}  // namespace

std::vector<Finding> FindDeaths(const Facts& facts) {
  const View& view = facts.view;
  const WaitGraph& graph = facts.graph;
  std::vector<Finding> findings;
  const std::vector<Death> deaths = Deaths(view, graph);
  if (auto absent = FindAbsent(view, graph, deaths)) return {*std::move(absent)};
  // Whom MPI_Finalize has let go has done what it had to: who waits for it may be in the wrong, or the launcher, ended
  // from outside, has released it.
  const auto was_let_go = [&](const Death& death) { return HasLeftFinalize(*view.processes[death.process].box); };
  std::vector<const Death*> early;  // all orderly exits that somebody waits for make one finding
  Certainty early_certainty = Certainty::kLikely;
  bool launcher_kills = false;
  for (const Death& death : deaths) {
    const std::optional<Certainty> certainty = CertaintyOfDeath(view, death);
    const Process& process = view.processes[death.process];
    launcher_kills |= IsVerdictOfItsOwn(view, death);
    if (launcher_kills && process.outcome.signal == SIGKILL) continue;
    if (!certainty || process.nodes.empty()) continue;
    if (KindOfDeath(process, death.said) == Kind::kEarlyExit) {
      early.push_back(&death);
      if (!was_let_go(death)) early_certainty = std::max(early_certainty, *certainty);
      continue;
    }
    if (early.empty()) {
      const bool certain = *certainty == Certainty::kCertain;
      const std::vector<const Death*> all =
          certain ? std::vector<const Death*>{&death} : Inseparable(view, deaths, death);
      findings.push_back(Explain(view, graph, all, *certainty));
    }
    break;  // later deaths are consequences
  }
  if (early_certainty == Certainty::kCertain)
    std::erase_if(early, [&](const Death* death) { return was_let_go(*death); });
  if (!early.empty() && findings.empty()) findings.push_back(Explain(view, graph, early, early_certainty));
  return findings;
}

}  // namespace ncclwatch::diagnosis
