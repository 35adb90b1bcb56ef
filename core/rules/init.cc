// initialization_hang: a communicator that cannot come into being, because ranks are missing or disagree on its size.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/calls/creations.h"
#include "core/model/text.h"
#include "core/rules/not_running.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using format::CommunicatorState;

int RankOf(const View& view, const Member& member) { return member.node >= 0 ? view.nodes[member.node].rank : -1; }

CallSummary CreationCall(const View& view, const CommView& comm, const Member& member) {
  CallSummary call;
  call.ranks = {RankOf(view, member)};
  call.communicator = comm.id;
  call.label = comm.label;
  call.mpi = (member.comm->flags & format::kCommMpi) != 0;
  if (!call.mpi) call.op = comm.parent == 0 ? "CommInitRank" : "CommSplit";
  call.state = IsJoining(view, member) ? CallState::kEntered : CallState::kReturned;
  call.elapsed_s = static_cast<double>(view.now_ns - view.process(member).At(member.comm->created_ns)) * 1e-9;
  for (const reader::Call& made : view.process(member).box->calls) {
    const functions::FunctionInfo* info = functions::Find(made.function);
    const bool window = (IsWindow(comm) || IsFile(comm)) && MakesWindowOrFile(made.function) &&
                        made.position == member.comm->parent_ordinal;
    if (!window && (info == nullptr || info->family != functions::Family::kCreation)) continue;
    // MPI's are recorded on the communicator that the new one is made from.
    const bool here = made.communicator == member.comm->index && made.generation == member.comm->generation;
    const bool makes = made.BlocksCaller() && made.position == member.comm->parent_ordinal && IsJoining(view, member);
    if (!window && !(call.mpi ? makes : here)) continue;
    call.op = std::string(functions::OpName(made.function));
    call.thread = made.thread;
    call.site = made.site;
    if (made.site == 0) continue;
    call.site_text = SiteText(view, view.process(member), made.site);
    call.source = SourceOf(*view.process(member).box, made.site);
  }
  return call;
}

std::vector<CallSummary> Calls(const View& view, const CommView& comm, const std::vector<MissingRank>& absentees) {
  std::vector<CallSummary> calls;
  for (const Member& member : comm.members) {
    CallSummary call = CreationCall(view, comm, member);
    const auto same = std::find_if(calls.begin(), calls.end(), [&](const CallSummary& known) {
      return known.state == call.state && known.op == call.op;
    });
    if (same == calls.end()) {
      calls.push_back(std::move(call));
    } else {
      same->ranks.push_back(call.ranks.front());
      same->elapsed_s = std::max(same->elapsed_s, call.elapsed_s);
    }
  }
  for (const bool seen : {true, false}) {
    CallSummary absent;
    absent.communicator = comm.id;
    absent.label = comm.label;
    absent.state = seen ? CallState::kNotCalled : CallState::kNotObserved;
    for (const MissingRank& absentee : absentees) {
      if (comm.OfRank(absentee.comm_rank) != nullptr && comm.parent == 0) continue;  // inside, and stands still there
      if ((absentee.node >= 0) == seen) absent.ranks.push_back(absentee.rank);
    }
    if (!absent.ranks.empty()) calls.push_back(std::move(absent));
  }
  for (CallSummary& call : calls) std::sort(call.ranks.begin(), call.ranks.end());
  return calls;
}

// What is known of a rank that has not joined.
std::string AbsenceText(const View& view, const CommView& comm, const MissingRank& absentee) {
  const std::string who =
      absentee.rank >= 0 ? Ranks({absentee.rank}) : "communicator rank " + std::to_string(absentee.comm_rank);
  if (absentee.node >= 0) return who + " has not joined: " + WhereText(view, view.nodes[absentee.node]);
  const reader::Observation* seen = nullptr;
  for (const reader::Observation& observation : view.snapshot->observations) {
    if (observation.rank == absentee.rank && absentee.rank >= 0) seen = &observation;
  }
  if (seen != nullptr)
    return fmt::format("{} has not joined: its process (pid {}) {}", who, seen->pid,
                       seen->what == format::Observed::kGone ? "ended without having called NCCL"
                                                             : "runs and has not called NCCL yet");
  if (view.expected > 0 && absentee.rank >= view.expected)
    return fmt::format("{} does not exist: the communicator is made for {}, the job has {}", who,
                       Plural(comm.size, "rank"), view.expected);
  return who + " has not joined, and no process of it has been seen on this machine";
}

Finding ExplainAbsence(const View& view, const WaitGraph& graph, const CommView& comm,
                       const std::vector<MissingRank>& absentees, std::int64_t began_ns, Certainty certainty) {
  Finding finding;
  finding.kind = Kind::kInitializationHang;
  finding.certainty = certainty;
  std::vector<int> ranks, nodes, victims;
  for (const MissingRank& absentee : absentees) {
    if (absentee.rank >= 0) ranks.push_back(absentee.rank);
    if (absentee.node >= 0) nodes.push_back(absentee.node);
  }
  AddCulprits(view, ranks, &finding);
  AddVictims(view, graph, nodes, &finding);
  for (const Member& member : comm.members) {
    if (IsJoining(view, member) && member.node >= 0) finding.victims.push_back(RankOf(view, member));
  }
  finding.victims = SortedUnique(std::move(finding.victims));
  std::erase_if(finding.victims,
                [&](int rank) { return std::binary_search(finding.culprits.begin(), finding.culprits.end(), rank); });
  finding.communicator = DescribeComm(comm);
  finding.calls = Calls(view, comm, absentees);
  finding.began_at_ns = ToRealtime(view, began_ns);
  const std::string who = finding.culprits.empty() ? Plural(absentees.size(), "rank") : Ranks(finding.culprits);
  finding.summary = fmt::format("{} {} not joined {}; {} {} waited {} for it to be created.", Capital(who),
                                absentees.size() == 1 ? "has" : "have", CommText(comm), Ranks(finding.victims),
                                finding.victims.size() == 1 ? "has" : "have", Seconds(view.now_ns - began_ns));
  constexpr std::size_t kEnough = 8;
  for (std::size_t i = 0; i < std::min(kEnough, absentees.size()); ++i) {
    finding.evidence.push_back(AbsenceText(view, comm, absentees[i]));
  }
  if (absentees.size() > kEnough) {
    finding.evidence.push_back("and " + Plural(absentees.size() - kEnough, "rank") + " more have not joined");
  }
  finding.next_steps.push_back(
      "see what the missing ranks do before they create the communicator, and whether they "
      "were started at all");
  finding.next_steps.push_back(
      "check that the launcher starts as many ranks as the program expects "
      "(WORLD_SIZE, -np, --nproc-per-node)");
  return finding;
}

// All that are missing do not run: that is why.
void NameStandstill(const View& view, const std::vector<MissingRank>& absentees, Finding* finding) {
  std::optional<StopReason> first;
  for (const MissingRank& absentee : absentees) {
    if (absentee.node < 0) return;
    const std::optional<StopReason> reason = NotRunning(view, view.process(view.nodes[absentee.node]));
    if (!reason || (first && reason->kind != first->kind)) return;
    if (!first) first = reason;
  }
  const Process& process = view.process(view.nodes[absentees.front().node]);
  finding->kind = first->kind;
  finding->certainty = std::min(finding->certainty, first->at_most);
  const std::string standing = Ranks({view.nodes[absentees.front().node].rank}) + " " + first->text;
  finding->summary = Capital(standing) + ". " + finding->summary;
  if (first->kind == Kind::kFrozenProcess)
    finding->next_steps = StepsForFrozen(process.outcome.what, std::to_string(process.box->pid));
}

// Parts of a job are rows and columns of its ranks: where those that have joined lie at even distances, so do the
// others.
void NameByStride(const View& view, const CommView& comm, std::vector<MissingRank>* absentees) {
  std::vector<std::pair<std::int64_t, std::int64_t>> known;  // rank in it, job rank
  for (const Member& member : comm.members)
    if (member.node >= 0 && member.rank_known()) known.push_back({member.comm->rank, RankOf(view, member)});
  if (known.size() < 3 || known[1].first == known[0].first) return;
  const std::int64_t across = known[1].first - known[0].first, along = known[1].second - known[0].second;
  const auto fits = [&](std::int64_t rank, std::int64_t job_rank) {
    return (job_rank - known[0].second) * across == (rank - known[0].first) * along;
  };
  if (along == 0 || !std::all_of(known.begin(), known.end(), [&](const auto& at) { return fits(at.first, at.second); }))
    return;
  for (MissingRank& absentee : *absentees) {
    if (absentee.rank >= 0 || absentee.node >= 0) continue;
    const std::int64_t rank = known[0].second + (absentee.comm_rank - known[0].first) * along / across;
    const auto node = view.node_of_rank.find(static_cast<int>(rank));
    if (node == view.node_of_rank.end() || !fits(absentee.comm_rank, rank)) continue;
    absentee.rank = static_cast<int>(rank);
    absentee.node = node->second;
  }
}

// It waits, but only for ranks that are joining the communicator and so for it: more than are missing. They have come
// first to what it has left out, or comes to later.
bool WaitsForJoining(const View& view, const WaitGraph& graph, const CommView& comm, std::size_t missing, int node) {
  const auto joining = [&](int other) {
    return std::any_of(comm.members.begin(), comm.members.end(),
                       [&](const Member& member) { return member.node == other && IsJoining(view, member); });
  };
  const std::vector<int>& waits = graph.out[static_cast<std::size_t>(node)];
  return graph.blocked[static_cast<std::size_t>(node)] == 0 && comm.members.size() > missing && !waits.empty() &&
         std::all_of(waits.begin(), waits.end(),
                     [&](int wait) { return joining(graph.waits[static_cast<std::size_t>(wait)].other); });
}

// Who has not joined, lives and waits for nobody; only those that others wait for already, or are in no call at all.
enum class Idle { kMissed, kInNoCall, kAny };

std::vector<int> IdleNodes(const View& view, const WaitGraph& graph, const CommView& comm, Idle which) {
  std::vector<char> joined(view.nodes.size(), 0);
  for (const Member& member : comm.members)
    if (member.node >= 0) joined[static_cast<std::size_t>(member.node)] = 1;
  std::vector<int> idle;
  for (std::size_t n = 0; n < view.nodes.size(); ++n) {
    const int node = static_cast<int>(n);
    if (joined[n] != 0 || view.process(view.nodes[n]).outcome.gone() || graph.Waits(node)) continue;
    if (which == Idle::kMissed && graph.in[n].empty()) continue;
    if (which == Idle::kInNoCall && IsInACall(view, view.nodes[n])) continue;
    idle.push_back(node);
  }
  return idle;
}

// A communicator of a part of the job does not say who its missing ranks are. Where just as many others as are missing
// wait for nobody, they are the ones; where there are fewer, some of the missing wait elsewhere, and what keeps them
// there is told there.
void NameByIdleness(const View& view, const WaitGraph& graph, const CommView& comm,
                    std::vector<MissingRank>* absentees) {
  std::vector<MissingRank*> nameless;
  for (MissingRank& absentee : *absentees)
    if (absentee.rank < 0 && absentee.node < 0) nameless.push_back(&absentee);
  if (nameless.empty() || static_cast<int>(view.nodes.size()) < view.expected) return;
  std::size_t fewest = SIZE_MAX;
  for (const Idle which : {Idle::kMissed, Idle::kInNoCall, Idle::kAny}) {
    const std::vector<int> idle = IdleNodes(view, graph, comm, which);
    if (!idle.empty()) fewest = std::min(fewest, idle.size());
    if (idle.size() != nameless.size()) continue;
    for (std::size_t i = 0; i < idle.size(); ++i) {
      nameless[i]->node = idle[i];
      nameless[i]->rank = view.nodes[static_cast<std::size_t>(idle[i])].rank;
    }
    return;
  }
  if (fewest < nameless.size())
    std::erase_if(*absentees, [](const MissingRank& absentee) { return absentee.rank < 0 && absentee.node < 0; });
}

struct Absence {
  const CommView* comm = nullptr;
  std::vector<MissingRank> absentees;
  std::int64_t began_ns = 0;
  Certainty certainty{};
};

std::optional<Absence> FindAbsence(const View& view, const WaitGraph& graph, const CommView& comm) {
  std::vector<MissingRank> absentees = Absentees(view, comm);
  if (absentees.empty()) return std::nullopt;
  NameByStride(view, comm, &absentees);
  NameByIdleness(view, graph, comm, &absentees);
  std::int64_t latest = 0;
  std::int64_t began = INT64_MAX;
  for (const Member& member : comm.members) {
    if (!IsJoining(view, member) || view.process(member).outcome.gone()) continue;
    const std::int64_t created = view.process(member).At(member.comm->created_ns);
    latest = std::max(latest, created);
    began = std::min(began, created);
  }
  if (began == INT64_MAX) return std::nullopt;  // nobody alive is waiting
  // Dead ones are dead_rank, and those who wait elsewhere are victims themselves.
  const std::size_t missing = absentees.size();
  std::erase_if(absentees, [&](const MissingRank& absentee) {
    if (absentee.node < 0) return false;
    const Node& node = view.nodes[absentee.node];
    const bool waits = graph.Waits(absentee.node) && !WaitsForJoining(view, graph, comm, missing, absentee.node);
    if (view.process(node).outcome.gone() || waits) return true;
    latest = std::max(latest, node.active_ns);
    return false;
  });
  const bool never = std::all_of(absentees.begin(), absentees.end(), [&](const MissingRank& absentee) {
    return absentee.node >= 0 && HasComeToFinalize(view, view.nodes[absentee.node]);
  });
  std::optional<Certainty> certainty = ByTime(view, view.now_ns - latest);
  if (never && view.now_ns - latest >= kFinalizing_ns) certainty = Certainty::kLikely;
  if (absentees.empty() || !certainty) return std::nullopt;
  return Absence{&comm, std::move(absentees), began, *certainty};
}

// The first of them: a job of thousands makes thousands of communicators side by side, and one rank is missed in many.
void ExplainAbsences(const View& view, const WaitGraph& graph, std::vector<Absence> absences,
                     std::vector<Finding>* findings) {
  constexpr std::size_t kMost = 32;
  std::stable_sort(absences.begin(), absences.end(),
                   [](const Absence& a, const Absence& b) { return a.began_ns < b.began_ns; });
  if (absences.size() > kMost) absences.resize(kMost);
  for (const Absence& absence : absences) {
    findings->push_back(
        ExplainAbsence(view, graph, *absence.comm, absence.absentees, absence.began_ns, absence.certainty));
    NameStandstill(view, absence.absentees, &findings->back());
  }
}

void FindDifferentSizes(const View& view, const CommView& comm, std::vector<Finding>* findings) {
  std::map<std::uint32_t, std::vector<const Member*>> sides;
  for (const Member& member : comm.members) {
    if (member.comm->size > 0) sides[member.comm->size].push_back(&member);
  }
  std::vector<std::pair<std::uint32_t, std::vector<const Member*>>> order(sides.begin(), sides.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  const bool tie = order[0].second.size() == order[1].second.size();
  Finding finding;
  finding.kind = Kind::kInitializationHang;
  finding.certainty = Certainty::kCertain;
  std::vector<int> culprits;
  std::vector<std::string> said;
  std::vector<std::int64_t> began;
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::vector<int> ranks;
    std::int64_t first = INT64_MAX;
    for (const Member* member : order[i].second) {
      ranks.push_back(RankOf(view, *member));
      first = std::min(first, view.process(*member).At(member->comm->created_ns));
    }
    ranks = SortedUnique(std::move(ranks));
    began.push_back(first);
    if (tie || i > 0) {
      culprits.insert(culprits.end(), ranks.begin(), ranks.end());
    } else {
      finding.victims = ranks;
    }
    said.push_back(Ranks(ranks) + (ranks.size() == 1 ? " says " : " say ") + std::to_string(order[i].first));
  }
  std::sort(began.begin(), began.end());
  std::erase(culprits, -1);
  AddCulprits(view, culprits, &finding);
  finding.communicator = DescribeComm(comm);
  finding.calls = Calls(view, comm, {});
  finding.began_at_ns = ToRealtime(view, began[1]);
  finding.unsettled = comm.members.size() < comm.size;
  finding.summary =
      fmt::format("The ranks disagree on how many ranks communicator {} has: {}; it can never be created.", comm.name,
                  Join(said, ", "));
  for (const std::string& line : said) finding.evidence.push_back(line + " ranks in the creating call");
  finding.next_steps.push_back(
      "give every rank the same world size: it comes from the launcher (WORLD_SIZE, -np), a "
      "configuration file, or is counted differently on " +
      Ranks(finding.culprits));
  findings->push_back(std::move(finding));
}

}  // namespace

std::vector<Finding> FindInitializationHangs(const Facts& facts) {
  const View& view = facts.view;
  const WaitGraph& graph = facts.graph;
  std::vector<Finding> findings;
  std::vector<Absence> absences;
  for (const CommView& comm : view.comms) {
    if (!comm.comparable) continue;
    if (comm.sizes_differ && comm.parent == 0) {
      FindDifferentSizes(view, comm, &findings);
    } else if (std::optional<Absence> absence = FindAbsence(view, graph, comm)) {
      absences.push_back(std::move(*absence));
    }
  }
  ExplainAbsences(view, graph, std::move(absences), &findings);
  return findings;
}

}  // namespace ncclwatch::diagnosis
