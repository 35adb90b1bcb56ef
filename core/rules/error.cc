// library_error and out_of_memory of ranks that are not the first to be gone: the first misfortune in time is the
// cause, what others do about it (abort, time out, die) is a consequence.
#include <algorithm>
#include <tuple>

#include "core/model/text.h"
#include "core/rules/deaths.h"
#include "core/rules/last_words.h"
#include "core/rules/rules.h"

namespace ncclwatch::diagnosis {
namespace {

// A rank that lives may yet get over what happened to it; others do not die of it sooner than this.
constexpr std::int64_t kSettledNs = 1'000'000'000;

struct Misfortune {
  const Process* process = nullptr;
  DeathCause said;
  Kind kind{};
  std::int64_t at_ns = 0;
};

std::optional<Misfortune> MisfortuneOf(const Process& process) {
  Misfortune found{&process, ExplainDeath(process), Kind::kLibraryError, 0};
  if (process.nodes.empty()) return std::nullopt;
  if (found.said.allocation != nullptr) {
    found.kind = Kind::kOutOfMemory;
    found.at_ns = process.At(found.said.allocation->at_ns);
  } else if (found.said.error != nullptr) {
    found.at_ns = process.At(found.said.error->at_ns);
  } else {
    return std::nullopt;
  }
  return found;
}

// The communicator that the error is of, else the largest of the process that has others in it.
const CommView* CommOf(const View& view, const Misfortune& misfortune) {
  const CommView* largest = nullptr;
  for (const CommView& comm : view.comms) {
    for (const Member& member : comm.members) {
      if (comm.size < 2 || &view.process(member) != misfortune.process) continue;
      const reader::NcclError* error = misfortune.said.error;
      if (error != nullptr && member.comm->index == error->communicator && member.comm->generation == error->generation)
        return &comm;
      if (largest == nullptr) largest = &comm;
    }
  }
  return largest;
}

std::string WhatHappened(const Misfortune& misfortune) {
  return misfortune.kind == Kind::kOutOfMemory ? "could not get " + AllocationText(*misfortune.said.allocation)
                                               : "got " + ErrorText(*misfortune.said.error);
}

Finding Explain(const View& view, const WaitGraph& graph, const CommView& comm, const Misfortune& misfortune,
                Certainty certainty) {
  const Process& process = *misfortune.process;
  Finding finding;
  finding.kind = misfortune.kind;
  finding.certainty = certainty;
  AddCulprits(view, RanksOf(view, process.nodes), &finding);
  AddVictims(view, graph, process.nodes, &finding);
  finding.communicator = DescribeComm(comm);
  finding.began_at_ns = ToRealtime(view, misfortune.at_ns);
  const std::string who = Capital(Ranks(finding.culprits)) + " (" + ProcessText(view, process) + ") ";
  finding.summary = who + (process.outcome.gone() ? HowItDied(process, misfortune.said) : WhatHappened(misfortune)) +
                    ", " + Seconds(std::max<std::int64_t>(0, view.now_ns - misfortune.at_ns)) + " ago" +
                    (process.outcome.gone() ? "" : " and has made no progress since") + ": the first error of the job.";
  finding.evidence = WordsAsEvidence(process, misfortune.said);
  for (const int node : process.nodes)
    finding.evidence.push_back(Ranks({view.nodes[node].rank}) + ": " + WhereText(view, view.nodes[node]));
  finding.next_steps = NextSteps(finding.kind, process, misfortune.said);
  return finding;
}

const Process* ProcessOf(const View& view, const Finding& finding) {
  const auto node = finding.culprits.empty() ? view.node_of_rank.end() : view.node_of_rank.find(finding.culprits[0]);
  return node == view.node_of_rank.end() ? nullptr : &view.process(view.nodes[node->second]);
}

// Did the dead one live on after it, and long enough to have died of it?
bool CameBefore(const WaitGraph& graph, const Misfortune& misfortune, const Process& dead, std::int64_t died_ns) {
  if (misfortune.at_ns >= std::min(dead.outcome.last_sign_ns, died_ns)) return false;
  const DeathCause said = ExplainDeath(dead);
  if (KindOfDeath(dead, said) == Kind::kLibraryError) return true;  // its error came later
  if (died_ns - misfortune.at_ns < kSettledNs) return false;
  return std::any_of(misfortune.process->nodes.begin(), misfortune.process->nodes.end(),
                     [&](int node) { return !graph.in[node].empty(); });
}

// Members that are known to be still in a collective that all of them have entered.
std::size_t StillInIt(const View& view, const CommView& comm) {
  std::size_t waiting = 0;
  for (const Member& member : comm.members) {
    if (member.node < 0 || view.process(member).outcome.gone() || !member.alive_in()) continue;
    if (member.entered > 0 && view.Unfinished(member) < member.entered) ++waiting;
  }
  return waiting;
}

std::int64_t LastArrival(const View& view, const CommView& comm) {
  std::int64_t last = 0;
  for (const Member& member : comm.members)
    if (member.entered > 0) last = std::max(last, view.process(member).At(member.comm->last.entered_ns));
  return last;
}

}  // namespace

std::vector<Finding> FindErrorsBefore(const Facts& facts) {
  const View& view = facts.view;
  const WaitGraph& graph = facts.graph;
  const Finding& death = facts.findings.front();
  const Process* const dead = ProcessOf(view, death);
  if (dead == nullptr) return {};
  const std::int64_t died_ns = death.began_at_ns - view.realtime_minus_monotonic_ns;
  std::optional<Misfortune> first;
  for (const Process& process : view.processes) {
    if (&process == dead) continue;
    std::optional<Misfortune> misfortune = MisfortuneOf(process);
    if (!misfortune || !CameBefore(graph, *misfortune, *dead, died_ns)) continue;
    if (!first || misfortune->at_ns < first->at_ns) first = misfortune;
  }
  const CommView* const comm = first ? CommOf(view, *first) : nullptr;
  if (comm == nullptr) return {};
  const ProcessOutcome& outcome = first->process->outcome;
  const bool for_good = outcome.what == format::Observed::kGone && outcome.violent() &&
                        !BlamesSomebodyElse(view, *first->process, first->said);
  return {Explain(view, graph, *comm, *first, for_good ? Certainty::kCertain : Certainty::kLikely)};
}

std::vector<Finding> FindErrors(const Facts& facts) {
  const View& view = facts.view;
  const WaitGraph& graph = facts.graph;
  std::vector<Finding> findings;
  for (const CommView& comm : view.comms) {
    if (!comm.comparable || comm.size < 2 || StillInIt(view, comm) < 2) continue;
    std::optional<Misfortune> first;
    for (const Member& member : comm.members) {
      if (member.node < 0 || view.process(member).outcome.gone() || graph.Waits(member.node)) continue;
      std::optional<Misfortune> misfortune = MisfortuneOf(view.process(member));
      if (!misfortune || misfortune->kind != Kind::kLibraryError || CommOf(view, *misfortune) != &comm) continue;
      if (!first || misfortune->at_ns < first->at_ns) first = misfortune;
    }
    if (!first) continue;
    // Somebody waits for a call of its own: that is a stall, and told there.
    const std::vector<int>& nodes = first->process->nodes;
    if (std::any_of(nodes.begin(), nodes.end(), [&](int node) { return !graph.in[node].empty(); })) continue;
    const std::optional<Certainty> certainty = ByTime(view, view.now_ns - LastArrival(view, comm));
    if (certainty) findings.push_back(Explain(view, graph, comm, *first, *certainty));
  }
  return findings;
}

}  // namespace ncclwatch::diagnosis
