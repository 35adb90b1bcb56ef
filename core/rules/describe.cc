#include "core/rules/describe.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/model/text.h"
#include "core/rules/last_words.h"
#include "core/view/mpi_traits.h"
#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/format/lease.h"

namespace ncclwatch::diagnosis {
namespace {

// A name given just before the instant that is judged was perhaps not there yet when the live leader looked.
constexpr std::int64_t kNamingNs = 20'000'000;

using reader::Call;

std::string OpText(functions::Function function) { return std::string(functions::OpName(function)); }

bool Same(const CallSummary& a, const CallSummary& b) {
  return a.state == b.state && a.op == b.op && a.count == b.count && a.dtype == b.dtype && a.reduction == b.reduction &&
         a.root == b.root && a.result == b.result;
}

const Call* FailedAt(const Member& member, std::uint64_t position) {
  return member.failed != nullptr && member.failed->position == position ? member.failed : nullptr;
}

// Of the rank's newest communicator that tells it.
std::optional<Gpu> GpuOf(const View& view, const Node& node) {
  const reader::Communicator* newest = nullptr;
  for (const auto& at : node.memberships) {
    const reader::Communicator* comm = view.member(at).comm;
    if (!comm->gpu.empty() && (!newest || comm->created_ns > newest->created_ns)) newest = comm;
  }
  if (!newest) return std::nullopt;
  const std::size_t blank = newest->gpu.find(' ');
  Gpu gpu{newest->gpu.substr(0, blank), {}, newest->device};
  if (blank != std::string::npos) gpu.pci_bus_id = newest->gpu.substr(blank + 1);
  return gpu;
}

}  // namespace

void Merge(CallSummary call, std::vector<CallSummary>* calls) {
  for (CallSummary& known : *calls) {
    if (!Same(known, call)) continue;
    known.ranks.insert(known.ranks.end(), call.ranks.begin(), call.ranks.end());
    if (known.payload.empty()) known.payload = call.payload;
    if (call.elapsed_s && (!known.elapsed_s || *call.elapsed_s > *known.elapsed_s)) known.elapsed_s = call.elapsed_s;
    return;
  }
  calls->push_back(std::move(call));
}

CallState StateAt(const Member& member, std::uint64_t position, const Call* call) {
  if (call != nullptr && IsError(*call)) return CallState::kFailed;
  if (call != nullptr && (call->flags & format::kEmpty) != 0) {
    return call->returned_ns == 0 ? CallState::kEntered : CallState::kReturned;
  }
  // Only collectives count with `returned`.
  if (call != nullptr && functions::IsMpi(call->function) && !functions::IsCollective(call->function))
    return call->returned_ns == 0 ? CallState::kEntered : CallState::kReturned;
  if (call == nullptr && position >= member.entered) return CallState::kNotCalled;
  if (position >= member.comm->returned || (call != nullptr && call->returned_ns == 0)) return CallState::kEntered;
  // What a dump of the calls under way lacks is over, and so is what a profiler's window lacks.
  if (call == nullptr)
    return member.box->active_only || member.box->window ? CallState::kFinished : CallState::kReturned;
  if ((call->flags & format::kMarked) != 0 && member.comm->Finished(call->ticket)) return CallState::kFinished;
  const bool started = (call->flags & format::kStartMarked) != 0 && member.comm->Started(call->start);
  return started ? CallState::kStarted : CallState::kReturned;
}

CallSummary DescribeCall(const View& view, const CommView& comm, const Member& member, std::uint64_t position,
                         const Call* call) {
  CallSummary summary;
  summary.ranks = {member.node >= 0 ? view.nodes[member.node].rank : -1};
  summary.communicator = comm.id;
  summary.label = comm.label;
  summary.position = position;
  summary.state = StateAt(member, position, call);
  if (call == nullptr) return summary;
  summary.op = OpText(call->function);
  summary.mpi = functions::IsMpi(call->function);
  const functions::FunctionInfo* info = functions::Find(call->function);
  const bool bare = functions::IsCollective(call->function) ||
                    (info != nullptr && info->family == functions::Family::kLife);  // MPI_Barrier, MPI_Finalize
  if (!functions::IsMpi(call->function) || !bare || call->dtype != format::kNoType) summary.count = call->count;
  if (call->dtype != format::kNoType) summary.dtype = std::string(functions::DatatypeName(call->dtype));
  if (call->reduction != format::kNoReduction) summary.reduction = ReductionName(call->reduction);
  if (info != nullptr && info->family == functions::Family::kPointToPoint) {
    summary.peer = PeerName{call->root, view.JobRank(comm, static_cast<std::uint32_t>(call->root))};
  } else if (call->root != format::kNoRank && functions::IsCollective(call->function)) {
    summary.root = call->root;
  }
  summary.payload = view.process(member).box->PayloadOf(*call);
  if (call->group != 0) summary.group = call->group;
  if (!view.process(member).box->dump) {
    summary.stream = call->stream;
    summary.thread = call->thread;
  }
  summary.site = call->site;
  if (call->site != 0) {
    summary.site_text = SiteText(view, view.process(member), call->site);
    summary.source = SourceOf(*view.process(member).box, call->site);
  }
  summary.elapsed_s =
      std::max(0.0, static_cast<double>(view.now_ns - view.process(member).At(call->entered_ns)) * 1e-9);
  if (call->result != format::kNoResult) summary.result = ResultName(call->result);
  return summary;
}

std::vector<CallSummary> DescribeCalls(const View& view, const CommView& comm, std::uint64_t position) {
  std::vector<CallSummary> calls;
  for (const Member& member : comm.members) {
    const Call* call = member.At(position);
    if (call == nullptr) call = FailedAt(member, position);
    Merge(DescribeCall(view, comm, member, position, call), &calls);
  }
  CallSummary unseen;
  unseen.communicator = comm.id;
  unseen.label = comm.label;
  unseen.position = position;
  unseen.state = CallState::kNotObserved;
  for (std::uint32_t rank = 0; rank < comm.job_ranks.size(); ++rank) {
    if (comm.OfRank(rank) != nullptr) continue;
    CallSummary absent = unseen;
    absent.ranks = {comm.job_ranks[rank]};
    // It has a box and no entry for this communicator: it has not joined, let alone called.
    if (view.node_of_rank.contains(comm.job_ranks[rank])) absent.state = CallState::kNotCalled;
    Merge(std::move(absent), &calls);
  }
  for (CallSummary& call : calls) std::sort(call.ranks.begin(), call.ranks.end());
  std::stable_sort(calls.begin(), calls.end(),
                   [](const CallSummary& a, const CallSummary& b) { return a.ranks.size() > b.ranks.size(); });
  return calls;
}

// Of a process without a box of its own: that of its neighbours.
std::string HostOf(const View& view, std::uint32_t place) {
  for (const Process& process : view.processes)
    if (format::PidPlace(process.box->boot_id, process.box->pid_namespace) == place) return process.box->host;
  return {};
}

Culprit DescribeCulprit(const View& view, int rank) {
  Culprit culprit;
  culprit.rank = rank;
  const auto node = view.node_of_rank.find(rank);
  if (node == view.node_of_rank.end()) {
    for (const reader::Observation& seen : view.snapshot->observations) {
      if (seen.rank != rank || rank < 0) continue;
      culprit.pid = seen.pid;
      culprit.start_time = seen.start_time;
      culprit.host = HostOf(view, seen.place);
    }
    return culprit;
  }
  const Process& process = view.process(view.nodes[node->second]);
  culprit.host = process.box->host;
  if (!process.box->dump) culprit.pid = process.box->pid;
  culprit.start_time = process.box->start_time;
  if (process.box->local_rank >= 0) culprit.local_rank = process.box->local_rank;
  culprit.node = process.box->node.empty() ? process.box->host : process.box->node;
  culprit.gpu = GpuOf(view, view.nodes[node->second]);
  culprit.last_words = DescribeWords(process);
  if (!process.outcome.gone()) return culprit;
  Exit exit;
  exit.signal = process.outcome.signal;
  exit.status = process.outcome.status;
  exit.core = process.outcome.core;
  exit.out_of_memory = process.outcome.out_of_memory;
  culprit.exit = exit;
  return culprit;
}

CommunicatorName DescribeComm(const CommView& comm) {
  CommunicatorName name;
  name.id = comm.id;
  name.label = comm.label;
  name.size = comm.size;
  name.members = comm.job_ranks;
  std::sort(name.members.begin(), name.members.end());
  return name;
}

std::string DataText(const Call& call) {
  if (call.dtype == format::kNoType) return "";
  return DataText(call.count, std::string(functions::DatatypeName(call.dtype)));
}

std::string CallText(const Call& call) {
  CallSummary summary;
  summary.op = OpText(call.function);
  if (call.dtype != format::kNoType) {
    summary.count = call.count;
    summary.dtype = std::string(functions::DatatypeName(call.dtype));
  }
  if (call.reduction != format::kNoReduction) summary.reduction = ReductionName(call.reduction);
  if (call.root != format::kNoRank && functions::IsCollective(call.function)) summary.root = call.root;
  return CallText(summary);
}

std::string CallText(const reader::BoxImage& box, const Call& call) {
  const std::string payload = box.PayloadOf(call);
  return CallText(call) + (payload.empty() ? "" : " = " + payload);
}

std::string CommText(const CommView& comm) {
  std::string text = (IsWindow(comm) ? "window " : IsFile(comm) ? "file " : "communicator ") + comm.name;
  return text + " (" + Plural(comm.size, "rank") + ")";
}

std::string CollectiveText(std::uint64_t first, std::uint64_t last) {
  if (first == last) return "collective " + std::to_string(first);
  return fmt::format("one of the collectives {} to {}", first, last);
}

std::string MixedText(std::uint64_t first, std::uint64_t last, std::uint64_t at) {
  const std::string since =
      fmt::format("from collective {} on data of different calls may have been combined, without an error", first);
  if (first == last)
    return fmt::format("collectives {} to {} are equal calls; the places of the calls show that it was {}: {}", first,
                       at, first, since);
  return fmt::format("collectives {} to {} are equal calls, so it may have been any of {} to {}: {}", first, at, first,
                     last, since);
}

std::string SiteText(const View& view, const Process& process, std::uint64_t site) {
  return reader::SiteText(*process.box, site, view.now_ns - process.shift_ns - kNamingNs);
}

std::string ProcessText(const View&, const Process& process) {
  if (process.box->dump) return "its dump: " + process.box->path.substr(process.box->path.rfind('/') + 1);
  return process.box->host + ", pid " + std::to_string(process.box->pid);
}

bool IsPolling(const Call& call) {
  return functions::IsMpi(call.function) && (call.flags & format::kPolls) != 0 && call.returned_ns == 0;
}

std::string WhereText(const View& view, const Node& node) {
  const Process& process = view.process(node);
  if (node.last == nullptr && process.box->from_summary) return "its last call was not known here at that moment";
  if (node.last == nullptr) return fmt::format("its {} holds no call", SourceText(view));
  const Call& call = *node.last;
  std::string text = CallText(*process.box, call);
  if (functions::IsCollective(call.function)) text += " at position " + std::to_string(call.position);
  for (const auto& at : node.memberships) {
    const Member& member = view.member(at);
    if (member.comm->index == call.communicator && member.comm->generation == call.generation) {
      text += " on communicator " + view.comms[at.first].name;
    }
  }
  const bool inside = call.returned_ns == 0;
  const std::int64_t at = process.At(inside ? call.entered_ns : call.returned_ns);
  const std::string since = Seconds(std::max<std::int64_t>(0, view.now_ns - at));
  if (IsPolling(call))
    text = fmt::format("it has polled {} in vain with {} for {}", Plural(call.count, "time"), text, since);
  else if (inside)
    text = fmt::format("it has been inside {} for {}", text, since);
  else
    text = fmt::format("its last call was {}, which returned {} ago", text, since);
  if (call.site != 0) text += ", called from " + SiteText(view, process, call.site);
  return text;
}

std::string_view SourceText(const View& view) {
  if (view.processes.empty() || !view.processes.front().box->dump) return "black box";
  return view.processes.front().box->window ? "trace" : "dump";
}

std::string CoverageText(const View& view, const CommView& comm) {
  if (comm.members.size() >= comm.size) return {};
  return fmt::format("only {} of its {} have a {} here; the others are unknown", comm.members.size(),
                     Plural(comm.size, "rank"), SourceText(view));
}

std::int64_t ToRealtime(const View& view, std::int64_t ns) { return ns + view.realtime_minus_monotonic_ns; }

std::vector<int> RanksOf(const View& view, const std::vector<int>& nodes) {
  std::vector<int> ranks;
  for (const int node : nodes) ranks.push_back(view.nodes[node].rank);
  return SortedUnique(std::move(ranks));
}

std::vector<int> RanksOf(const View& view, const std::vector<const Member*>& members) {
  std::vector<int> ranks;
  for (const Member* member : members)
    if (member->node >= 0) ranks.push_back(view.nodes[member->node].rank);
  return SortedUnique(std::move(ranks));
}

void AddCulprits(const View& view, std::vector<int> ranks, Finding* finding) {
  finding->culprits = SortedUnique(std::move(ranks));
  for (const int rank : finding->culprits) finding->culprit_details.push_back(DescribeCulprit(view, rank));
}

void AddVictims(const View& view, const WaitGraph& graph, const std::vector<int>& nodes, Finding* finding) {
  std::vector<int> victims = RanksOf(view, graph.Upstream(nodes));
  std::erase_if(victims,
                [&](int rank) { return std::binary_search(finding->culprits.begin(), finding->culprits.end(), rank); });
  finding->victims = std::move(victims);
}

}  // namespace ncclwatch::diagnosis
