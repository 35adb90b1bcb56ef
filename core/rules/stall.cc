// missing_participant, frozen_process, library_error, out_of_memory, point_to_point_mismatch: somebody alive for whom
// others wait and who waits for nobody. Time is all there is to go by, and of MPI that it has come to MPI_Finalize, so
// nothing here is ever certain.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/model/text.h"
#include "core/rules/last_words.h"
#include "core/rules/not_running.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"
#include "core/waits/windows.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

struct Suspect {
  int node = -1;
  std::vector<const Wait*> waits;  // for it, in one communicator
  int comm = -1;
  std::uint64_t position = 0;
  WaitFor what = WaitFor::kCollective;
  std::int64_t stalled_ns = 0;
  std::int64_t since_ns = 0;
  Kind kind{};
  Certainty certainty{};
  std::string standing;  // how the process stands
};

const Call* FailedCall(const View& view, const Suspect& suspect) {
  for (const auto& at : view.nodes[suspect.node].memberships) {
    if (at.first != suspect.comm) continue;
    const Member& member = view.member(at);
    if (member.failed != nullptr && member.failed->position >= suspect.position) return member.failed;
  }
  return nullptr;
}

// The process has made no call since it that takes part in anything.
bool IsLast(const Process& process, const reader::NcclError& error) {
  return std::none_of(process.box->calls.begin(), process.box->calls.end(), [&](const Call& call) {
    return (IsMessage(call) || functions::IsCollective(call.function)) && call.entered_ns > error.at_ns;
  });
}

// Of the communicator that others wait in, or of none in particular, or what has kept it from all of them.
bool IsOf(const View& view, const Suspect& suspect, const reader::NcclError& error) {
  if (error.communicator == format::kNoCommunicator) return true;
  if (IsLast(view.process(view.nodes[suspect.node]), error)) return true;
  for (const auto& at : view.nodes[suspect.node].memberships) {
    const Member& member = view.member(at);
    if (at.first == suspect.comm && member.comm->index == error.communicator &&
        member.comm->generation == error.generation)
      return true;
  }
  return false;
}

// Who has come to MPI_Finalize makes none of the calls that others wait for in calls of theirs.
bool HasComeToItsEnd(const View& view, const Suspect& suspect) {
  return HasComeToFinalize(view, view.nodes[suspect.node]) &&
         std::any_of(suspect.waits.begin(), suspect.waits.end(),
                     [](const Wait* wait) { return wait->proven && wait->choice < 0; });
}

Kind KindOfAbsence(const View& view, const Suspect& suspect) {
  if (suspect.what == WaitFor::kMessage) return Kind::kPointToPointMismatch;
  const bool never_opens = suspect.what == WaitFor::kEpoch && HasComeToItsEnd(view, suspect);
  return never_opens ? Kind::kEpochError : Kind::kMissingParticipant;
}

// A call of MPI that holds its rank for a reason that is not known: a collective that all have called, and from which
// others have gone on already, or a wait for requests of which the ring has nothing any more.
const Call* InsideOf(const View& view, const Suspect& suspect) {
  const Call* last = view.nodes[suspect.node].last;
  const bool inside = last != nullptr && functions::IsMpi(last->function) && last->returned_ns == 0 &&
                      (last->flags & format::kPolls) == 0 && last->function != functions::Function::MPI_Finalize;
  return inside ? last : nullptr;
}

void ChooseKind(const View& view, Suspect* suspect) {
  const Process& process = view.process(view.nodes[suspect->node]);
  if (const std::optional<StopReason> reason = NotRunning(view, process)) {
    suspect->kind = reason->kind;
    suspect->certainty = std::min(suspect->certainty, reason->at_most);
    suspect->standing = reason->text;
    return;
  }
  const DeathCause said = ExplainDeath(process);
  if (said.allocation != nullptr) {
    suspect->kind = Kind::kOutOfMemory;
    suspect->standing = "could not get " + AllocationText(*said.allocation) + " and has made no progress since";
  } else if (said.error != nullptr && IsOf(view, *suspect, *said.error)) {
    suspect->kind = Kind::kLibraryError;
    suspect->standing = "got " + ErrorText(*said.error) + " and has made no progress since";
  } else if (FailedCall(view, *suspect) != nullptr) {
    suspect->kind = Kind::kLibraryError;
  } else {
    suspect->kind = KindOfAbsence(view, *suspect);
    // Perhaps others have left it too early.
    if (InsideOf(view, *suspect) != nullptr) suspect->certainty = Certainty::kSuspected;
  }
}

// The communicator in which most wait for the node, and the first position there.
bool ChooseWaits(const View& view, const WaitGraph& graph, Suspect* suspect) {
  std::map<std::pair<int, WaitFor>, std::vector<const Wait*>> by_comm;
  for (const int index : graph.in[suspect->node]) {
    const Wait& wait = graph.waits[index];
    if (wait.what != WaitFor::kJoin) by_comm[{wait.comm, wait.what}].push_back(&wait);
  }
  // A collective that it has not made says that it is not here; a message alone, that it may have been forgotten.
  const bool missed = std::any_of(by_comm.begin(), by_comm.end(),
                                  [](const auto& at) { return at.first.second == WaitFor::kCollective; });
  for (auto& [key, waits] : by_comm) {
    if (waits.size() <= suspect->waits.size() || (missed && key.second == WaitFor::kMessage)) continue;
    suspect->comm = key.first;
    suspect->what = key.second;
    suspect->waits = waits;
  }
  if (suspect->waits.empty()) return false;
  suspect->position = UINT64_MAX;
  for (const Wait* wait : suspect->waits) suspect->position = std::min(suspect->position, wait->position);
  for (const Wait* wait : suspect->waits) {
    if (wait->position == suspect->position) suspect->since_ns = std::max(suspect->since_ns, wait->since_ns);
  }
  suspect->stalled_ns = view.now_ns - std::max(suspect->since_ns, view.nodes[suspect->node].active_ns);
  return true;
}

std::optional<Certainty> CertaintyOf(const View& view, const Suspect& suspect) {
  if (suspect.stalled_ns >= kFinalizing_ns && HasComeToItsEnd(view, suspect)) return Certainty::kLikely;
  return ByTime(view, suspect.stalled_ns);
}

std::vector<Suspect> Suspects(const View& view, const WaitGraph& graph) {
  std::vector<Suspect> suspects;
  for (std::size_t n = 0; n < view.nodes.size(); ++n) {
    Suspect suspect;
    suspect.node = static_cast<int>(n);
    if (graph.in[n].empty() || graph.Waits(suspect.node)) continue;
    if (view.process(view.nodes[n]).outcome.gone() || !ChooseWaits(view, graph, &suspect)) continue;
    const std::optional<Certainty> certainty = CertaintyOf(view, suspect);
    if (!certainty) continue;
    suspect.certainty = *certainty;
    ChooseKind(view, &suspect);
    suspects.push_back(std::move(suspect));
  }
  return suspects;
}

const Wait* First(const std::vector<const Wait*>& waits, std::uint64_t position) {
  for (const Wait* wait : waits) {
    if (wait->position == position && wait->call != nullptr) return wait;
  }
  return waits.front();
}

std::string WhatText(const View& view, const Suspect& suspect) {
  const CommView& comm = view.comms[suspect.comm];
  const Wait* wait = First(suspect.waits, suspect.position);
  const std::string call = wait->call != nullptr ? CallText(*view.process(view.nodes[wait->waiter]).box, *wait->call)
                                                 : std::string("the collective");
  if (suspect.what == WaitFor::kEnd) return "MPI_Finalize";
  // Which message of its sender's a receive of MPI will get is not known before.
  const bool any = suspect.what == WaitFor::kMessage && wait->call != nullptr &&
                   functions::IsMpi(wait->call->function) && wait->call->position == format::kNotMatched;
  if (suspect.what == WaitFor::kEpoch || any) return call + " on " + CommText(comm);
  const std::string_view unit = suspect.what == WaitFor::kMessage ? ", message " : ", collective ";
  return call + std::string(unit) + std::to_string(suspect.position) + " of " + CommText(comm);
}

std::string NotCalledText(const View& view, const Suspect& suspect, bool one) {
  return std::string(one ? " has" : " have") + " not called " +
         EpochCallAwaited(*First(suspect.waits, suspect.position)) + " on " + CommText(view.comms[suspect.comm]) + "; ";
}

// Those in the call itself; others wait for them in turn.
std::vector<int> Waiting(const View& view, const Suspect& suspect) {
  std::vector<int> ranks;
  for (const Wait* wait : suspect.waits) ranks.push_back(view.nodes[wait->waiter].rank);
  return SortedUnique(std::move(ranks));
}

std::string Summary(const View& view, const Suspect& suspect, const Finding& finding, std::int64_t waited_ns) {
  const Process& process = view.process(view.nodes[suspect.node]);
  const bool one = finding.culprits.size() == 1;
  std::string who = Capital(Ranks(finding.culprits));
  if (one) who += " (" + ProcessText(view, process) + ")";
  const std::vector<int> waiting = Waiting(view, suspect);
  const std::string_view have_waited = waiting.size() == 1 ? "has waited" : "have waited";
  const std::string others =
      fmt::format("{} {} for {} in {}", Ranks(waiting), have_waited, Seconds(waited_ns), WhatText(view, suspect));
  switch (finding.kind) {
    case Kind::kMissingParticipant:
      // A dump says that its process lived when it was written, and nothing of later.
      if (const Call* call = InsideOf(view, suspect); call != nullptr && one)
        who += " is still inside " + CallText(*process.box, *call) + " and";
      else if (!process.box->dump)
        who += one ? " is alive and" : " are alive and";
      if (suspect.what == WaitFor::kEpoch) return who + NotCalledText(view, suspect, one) + others + ".";
      return fmt::format("{} {} not called {}; {} {} in it for {}.", who, one ? "has" : "have", WhatText(view, suspect),
                         Ranks(waiting), have_waited, Seconds(waited_ns));
    case Kind::kLibraryError: {
      if (!suspect.standing.empty()) return who + " " + suspect.standing + "; " + others + ".";
      const Call& failed = *FailedCall(view, suspect);
      const bool mpi = functions::IsMpi(failed.function);
      return fmt::format("{} called {}, which {} refused with {}; {}.", who, CallText(failed), mpi ? "MPI" : "NCCL",
                         mpi ? fmt::format("error {}", failed.result) : ResultName(failed.result), others);
    }
    case Kind::kPointToPointMismatch:
      return fmt::format("{} {} not made the matching send or receive; {}.", who, one ? "has" : "have", others);
    case Kind::kEpochError: return who + NotCalledText(view, suspect, one) + others + ".";
    default: return who + " " + suspect.standing + "; " + others + ".";
  }
}

std::string StepToItsStacks(const Process& process) {
  if (process.box->dump) return "see where its process is: its log and its stacks";
  if (process.outcome.ended()) return "see what it did until it ended: its log, and `stacks/` in the run directory";
  return "see what it does now: `ncclwatch stacks " + std::to_string(process.box->pid) + "` (Python and native)";
}

void AddNextSteps(const View& view, const Suspect& suspect, Finding* finding) {
  const Process& process = view.process(view.nodes[suspect.node]);
  const std::string pid = std::to_string(process.box->pid);
  const std::string look = StepToItsStacks(process);
  std::vector<std::string>& steps = finding->next_steps;
  switch (finding->kind) {
    case Kind::kFrozenProcess: steps = StepsForFrozen(process.outcome.what, pid); break;
    case Kind::kLibraryError:
    case Kind::kOutOfMemory:
      steps = NextSteps(finding->kind, process, ExplainDeath(process));
      if (steps.empty())
        steps.push_back("look at the arguments of that call and at NCCL's own message: run with NCCL_DEBUG=WARN");
      break;
    case Kind::kEpochError:
      steps.emplace_back("compare which ranks MPI_Win_start and MPI_Win_post name, and how often, on both sides");
      steps.push_back(look);
      break;
    case Kind::kPointToPointMismatch:
      steps.push_back(look);
      steps.push_back(
          "compare the sends and receives of the two ranks: their order, or one that an exception or a branch "
          "has left out");
      break;
    default:
      steps.push_back(look);
      steps.push_back(
          "usual causes: a branch on the rank around the call, fewer batches than the others, a data loader "
          "or a file system that does not answer");
  }
}

bool MpiAlone(const std::vector<const Wait*>& waits) {
  return std::all_of(waits.begin(), waits.end(),
                     [](const Wait* wait) { return wait->call != nullptr && functions::IsMpi(wait->call->function); });
}

void AddEvidence(const View& view, const std::vector<const Suspect*>& group, Finding* finding) {
  constexpr std::size_t kEnough = 8;
  for (std::size_t i = 0; i < std::min(group.size(), kEnough); ++i) {
    const Node& node = view.nodes[group[i]->node];
    const bool mpi = node.last != nullptr && functions::IsMpi(node.last->function);
    const std::string progress = node.last != nullptr && IsPolling(*node.last) ? "made no progress" : "done nothing";
    std::string line =
        fmt::format("{} has {} in {} for {}: {}", Ranks({node.rank}), progress, mpi ? "MPI" : "NCCL",
                    Seconds(view.now_ns - std::max(node.active_ns, std::int64_t{0})), WhereText(view, node));
    if (HasComeToItsEnd(view, *group[i])) line += "; it will make no further call";
    if (node.last == nullptr) line = Ranks({node.rank}) + ": " + WhereText(view, node);
    finding->evidence.push_back(std::move(line));
    // Of one alone the sentence itself says it.
    if (!group[i]->standing.empty() && group.size() > 1)
      finding->evidence.push_back(Ranks({node.rank}) + " " + group[i]->standing);
  }
  if (group.size() > kEnough) finding->evidence.push_back("and " + Plural(group.size() - kEnough, "rank") + " more");
  std::size_t proven = 0;
  for (const Wait* wait : group.front()->waits) proven += wait->proven ? 1 : 0;
  finding->evidence.push_back(
      proven > 0 ? fmt::format("{} of {} {} known to be still in the call{}", proven,
                               Plural(group.front()->waits.size(), "waiting rank"), proven == 1 ? "is" : "are",
                               MpiAlone(group.front()->waits) ? "" : " (inside it, or the GPU has not finished it)")
                 : std::string("without GPU marks on these calls the other ranks may have finished them"));
  const std::string coverage = CoverageText(view, view.comms[group.front()->comm]);
  if (!coverage.empty()) finding->evidence.push_back(coverage);
}

// Of a message, or an epoch, only the two sides have anything to say.
std::vector<CallSummary> CallsOfPartners(const View& view, const Suspect& suspect) {
  const CommView& comm = view.comms[suspect.comm];
  std::vector<CallSummary> calls;
  for (const Wait* wait : suspect.waits) {
    calls.push_back(DescribeCall(view, comm, comm.members[wait->member], wait->position, wait->call));
    calls.back().state = wait->call->returned_ns == 0 ? CallState::kEntered : CallState::kReturned;
  }
  CallSummary absent;
  absent.ranks = {view.nodes[suspect.node].rank};
  absent.communicator = comm.id;
  absent.label = comm.label;
  absent.position = suspect.position;
  calls.push_back(std::move(absent));
  return calls;
}

// Of MPI_Finalize, which has no position: who is in it, and who is not.
std::vector<CallSummary> CallsAtTheEnd(const View& view, const std::vector<const Suspect*>& group) {
  std::vector<CallSummary> calls;
  std::set<int> reported;  // nodes
  CallSummary absent;
  for (const Suspect* suspect : group) {
    const CommView& comm = view.comms[suspect->comm];
    for (const Wait* wait : suspect->waits) {
      if (reported.insert(wait->waiter).second)
        Merge(DescribeCall(view, comm, comm.members[wait->member], 0, wait->call), &calls);
    }
    absent.communicator = comm.id;
    absent.label = comm.label;
    absent.ranks.push_back(view.nodes[suspect->node].rank);
  }
  absent.ranks = SortedUnique(std::move(absent.ranks));
  calls.push_back(std::move(absent));
  return calls;
}

std::vector<CallSummary> CallsOf(const View& view, const std::vector<const Suspect*>& group) {
  const Suspect& first = *group.front();
  switch (first.what) {
    case WaitFor::kCollective: return DescribeCalls(view, view.comms[first.comm], first.position);
    case WaitFor::kEnd: return CallsAtTheEnd(view, group);
    default: return CallsOfPartners(view, first);
  }
}

// Who has made the call that is waited in, whether it is back from it or not.
std::vector<int> Callers(const View& view, const Suspect& suspect) {
  std::vector<int> ranks;
  for (const Member& member : view.comms[suspect.comm].members)
    if (member.entered > suspect.position && member.node >= 0) ranks.push_back(view.nodes[member.node].rank);
  return SortedUnique(std::move(ranks));
}

// Most ranks have come to MPI_Finalize without the collective that others wait in: it is one too many.
bool IsOneTooMany(const View& view, const std::vector<const Suspect*>& group) {
  const Suspect& first = *group.front();
  return first.kind == Kind::kMissingParticipant && first.what == WaitFor::kCollective &&
         group.size() > Callers(view, first).size() &&
         std::all_of(group.begin(), group.end(),
                     [&](const Suspect* suspect) { return HasComeToItsEnd(view, *suspect); });
}

void BlameTheCallers(const View& view, const Suspect& suspect, Finding* finding) {
  const std::vector<int> callers = Callers(view, suspect);
  finding->kind = Kind::kOrderMismatch;
  finding->summary = fmt::format("{} called {}, which {} never did: {} reached MPI_Finalize.", Capital(Ranks(callers)),
                                 WhatText(view, suspect), Ranks(finding->culprits),
                                 finding->culprits.size() > 1 ? "they have" : "it has");
  finding->victims = std::move(finding->culprits);
  finding->culprits.clear();
  AddCulprits(view, callers, finding);
  finding->next_steps = {fmt::format(
      "look for what makes only {} call it, or call it once more than the others: a branch on the rank, a loop bound",
      Ranks(finding->culprits))};
}

Finding Explain(const View& view, const WaitGraph& graph, const std::vector<const Suspect*>& group) {
  const Suspect& first = *group.front();
  Finding finding;
  finding.kind = first.kind;
  finding.certainty = first.certainty;
  std::vector<int> nodes;
  std::int64_t began = first.since_ns;
  for (const Suspect* suspect : group) {
    nodes.push_back(suspect->node);
    began = std::min(began, suspect->since_ns);
    finding.certainty = std::min(finding.certainty, suspect->certainty);
  }
  AddCulprits(view, RanksOf(view, nodes), &finding);
  AddVictims(view, graph, nodes, &finding);
  const CommView& comm = view.comms[first.comm];
  finding.communicator = DescribeComm(comm);
  if (first.what != WaitFor::kEnd) finding.position = first.position;
  finding.calls = CallsOf(view, group);
  finding.began_at_ns = ToRealtime(view, began);
  finding.summary = Summary(view, first, finding, view.now_ns - began);
  AddEvidence(view, group, &finding);
  AddNextSteps(view, first, &finding);
  if (IsOneTooMany(view, group)) BlameTheCallers(view, first, &finding);
  return finding;
}

}  // namespace

std::vector<Finding> FindStalls(const Facts& facts) {
  const View& view = facts.view;
  const WaitGraph& graph = facts.graph;
  const std::vector<Suspect> suspects = Suspects(view, graph);
  std::map<std::tuple<std::int64_t, Kind, int, std::uint64_t>, std::vector<const Suspect*>> groups;
  std::map<std::tuple<Kind, int, std::uint64_t>, std::int64_t> began;  // ranks missing in one call are one finding
  for (const Suspect& suspect : suspects) {
    const auto [at, fresh] = began.try_emplace({suspect.kind, suspect.comm, suspect.position}, suspect.since_ns);
    if (!fresh) at->second = std::min(at->second, suspect.since_ns);
  }
  for (const Suspect& suspect : suspects) {
    const std::int64_t since = began[{suspect.kind, suspect.comm, suspect.position}];
    groups[{since, suspect.kind, suspect.comm, suspect.position}].push_back(&suspect);
  }
  std::vector<Finding> findings;
  for (const auto& [key, group] : groups) findings.push_back(Explain(view, graph, group));
  return findings;
}

}  // namespace ncclwatch::diagnosis
