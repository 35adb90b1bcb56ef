// transport_stall: a call that everybody has launched, nothing known is before it on any of the GPUs, and it does not
// end. Without start marks a GPU that is held up by other work before it looks the same.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/model/finding.h"
#include "core/model/text.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"
#include "core/waits/kernels.h"
#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

// device_stall: everybody has launched a call, and the GPU of somebody has not come to it.

bool IsOneSided(const Call& call) {
  const functions::FunctionInfo* info = functions::Find(call.function);
  return info != nullptr && info->family == functions::Family::kOneSided;
}

bool Any(const View& view, const Kernel& kernel, bool (*is)(const Call&)) {
  const std::vector<Call>& calls = view.process(view.nodes[kernel.node]).box->calls;
  return std::any_of(calls.begin(), calls.end(), is);
}

// Puts work on a stream that may wait for another rank, and of which no mark says whether it has ended: that may be
// what holds the GPU up.
bool EndsUnseen(const Call& call) {
  return IsOneSided(call) || (call.flags & (format::kNonBlocking | format::kMarkUnavailable)) != 0;
}

// Graphs are replayed without a call of NCCL's, and may hold some of its kernels.
bool IsCaptured(const Call& call) { return (call.flags & format::kCaptured) != 0; }

// What the GPU had finished on the communicator; empty if that is not known.
std::string LastText(const View& view, const Kernel& kernel) {
  const Member& member = view.member({kernel.comm, kernel.member});
  const std::uint64_t unfinished = view.Unfinished(member);
  const Call* last = unfinished == 0 ? nullptr : member.At(unfinished - 1);
  if (last == nullptr) return {};
  const std::int64_t at = view.process(member).At(last->entered_ns);
  return fmt::format(
      "the last collective of this communicator that the GPU of {} has finished is {} at position {}, called {} ago",
      Ranks({view.nodes[kernel.node].rank}), CallText(*last), last->position,
      Seconds(std::max<std::int64_t>(0, view.now_ns - at)));
}

void AddSteps(const View& view, const Node& node, Finding* finding) {
  const Process& process = view.process(node);
  const std::string pid = std::to_string(process.box->pid);
  const std::string where = " on " + process.box->host;
  finding->next_steps = {
      "see what its GPU runs: `nvidia-smi`" + where +
          " (busy: a kernel that spins; idle: it waits for an event, a "
          "copy or a host function), `cuda-gdb -p " +
          pid + "` with `info cuda kernels`, `dmesg -T | grep -i xid`",
      "see where its threads are: `ncclwatch stacks " + pid +
          "` (a CUDA thread inside a host function of the "
          "application; its last launch)",
      "usual causes: a kernel that waits for a flag or another rank, cudaStreamWaitEvent for another stream that is "
      "stuck, a host function (cudaLaunchHostFunc) that waits for a lock; CUDA_LAUNCH_BLOCKING=1 makes the host stop "
      "at the kernel, `compute-sanitizer --tool synccheck` finds barriers that some threads do not reach"};
}

Certainty CertaintyOf(const View& view, const Stuck& stuck, const std::vector<const Kernel*>& held, Certainty by_time) {
  // Of nobody is it known that he has begun: perhaps it is the same everywhere.
  const bool alone = held.size() < stuck.kernels.size() && stuck.RanksWhere(view, Begun::kYes).empty();
  const bool graphs =
      std::any_of(held.begin(), held.end(), [&](const Kernel* kernel) { return Any(view, *kernel, IsCaptured); });
  return alone || graphs ? Certainty::kSuspected : by_time;
}

void AddEvidence(const View& view, const Stuck& stuck, const std::vector<const Kernel*>& held, Finding* finding) {
  const std::vector<int> begun = stuck.RanksWhere(view, Begun::kYes), unknown = stuck.RanksWhere(view, Begun::kUnknown);
  if (!begun.empty()) finding->evidence.push_back("the GPU of " + Ranks(begun) + " has begun it (start marks)");
  if (!unknown.empty())
    finding->evidence.push_back("it is not known whether the GPU of " + Ranks(unknown) + " has begun it");
  finding->evidence.push_back(fmt::format(
      "NCCL has no unfinished work before it on the GPU of {}: other work holds it up", Ranks(finding->culprits)));
  constexpr std::size_t kReported = 4;
  for (std::size_t i = 0; i < std::min(held.size(), kReported); ++i) {
    std::string last = LastText(view, *held[i]);
    if (!last.empty()) finding->evidence.push_back(std::move(last));
  }
  for (const Kernel* kernel : held) {
    if (!Any(view, *kernel, IsCaptured)) continue;
    finding->evidence.push_back(Ranks({view.nodes[kernel->node].rank}) +
                                " replays CUDA graphs, and NCCL's work in them is not seen");
  }
}

// None where no GPU is known not to have begun, or what holds it up may be NCCL's own.
std::optional<Finding> ExplainDeviceStall(const View& view, const Stuck& stuck, Certainty by_time) {
  std::vector<const Kernel*> held;
  for (const Kernel& kernel : stuck.kernels)
    if (kernel.begun == Begun::kNo && !Any(view, kernel, EndsUnseen)) held.push_back(&kernel);
  if (held.empty()) return std::nullopt;
  const CommView& comm = view.comms[stuck.comm];
  const Call& call = *held.front()->calls.front();
  Finding finding;
  finding.kind = Kind::kDeviceStall;
  finding.certainty = CertaintyOf(view, stuck, held, by_time);
  std::vector<int> culprits;
  for (const Kernel* kernel : held) culprits.push_back(view.nodes[kernel->node].rank);
  AddCulprits(view, std::move(culprits), &finding);
  for (const Kernel& kernel : stuck.kernels) {
    const int rank = view.nodes[kernel.node].rank;
    if (!std::binary_search(finding.culprits.begin(), finding.culprits.end(), rank)) finding.victims.push_back(rank);
  }
  finding.victims = SortedUnique(std::move(finding.victims));
  finding.communicator = DescribeComm(comm);
  finding.position = call.position;
  if (functions::IsCollective(call.function)) finding.calls = DescribeCalls(view, comm, call.position);
  finding.began_at_ns = ToRealtime(view, stuck.since_ns);
  const bool one = finding.culprits.size() == 1;
  finding.summary = fmt::format(
      "The GPU{} of {} {} not reached {} on {}, which all its ranks launched {} ago: other work before it on the "
      "stream is stuck.",
      one ? "" : "s", Ranks(finding.culprits), one ? "has" : "have", CallText(call), CommText(comm),
      Seconds(view.now_ns - stuck.since_ns));
  AddEvidence(view, stuck, held, &finding);
  AddSteps(view, view.nodes[held.front()->node], &finding);
  return finding;
}

// That all GPUs have begun it leaves nothing but the transport.
void AddEvidence(const View& view, const Stuck& stuck, Finding* finding) {
  const std::vector<int> begun = stuck.RanksWhere(view, Begun::kYes);
  finding->evidence = {"all NCCL work that they launched before it has finished"};
  if (begun == finding->victims) {
    finding->evidence.push_back(
        "the GPU of each of them has begun it (start marks): no rank is missing, and no "
        "earlier work holds the call up: the cause is the network, NVLink or a GPU");
    return;
  }
  if (!begun.empty()) finding->evidence.push_back("the GPU of " + Ranks(begun) + " has begun it (start marks)");
  finding->evidence.push_back(
      "the marks show where calls end, not where they begin: a GPU that other work holds up before the "
      "call looks the same");
  if (SourceText(view) == "black box")
    finding->next_steps.push_back(
        "run all ranks with NCCLWATCH_GPU=both: start marks distinguish this from a GPU that other work holds up "
        "(device_stall)");
  finding->next_steps.push_back(
      "see what other kernels the ranks had on the stream before it: `ncclwatch stacks PID` of each");
}

Finding Explain(const View& view, const Stuck& stuck, Certainty certainty) {
  const CommView& comm = view.comms[stuck.comm];
  Finding finding;
  finding.kind = Kind::kTransportStall;
  finding.certainty = certainty;
  for (const Kernel& kernel : stuck.kernels) finding.victims.push_back(view.nodes[kernel.node].rank);
  finding.victims = SortedUnique(std::move(finding.victims));
  finding.communicator = DescribeComm(comm);
  const reader::Call& call = *stuck.kernels.front().calls.front();
  finding.position = call.position;
  if (functions::IsCollective(call.function)) finding.calls = DescribeCalls(view, comm, call.position);
  finding.began_at_ns = ToRealtime(view, stuck.since_ns);
  finding.next_steps = {
      "look at the network and the GPUs of these ranks: `nvidia-smi`, `dmesg -T | grep -i xid`, the counters of the "
      "switches; NCCL_DEBUG=WARN says which peer a transport waits for"};
  AddEvidence(view, stuck, &finding);
  const bool all_begun = stuck.RanksWhere(view, Begun::kYes) == finding.victims;
  finding.summary =
      fmt::format("{} have all launched {} on {}{}, and no GPU has finished it for {}.",
                  Capital(Ranks(finding.victims)), CallText(call), CommText(comm),
                  all_begun ? ", all their GPUs have begun it" : "", Seconds(view.now_ns - stuck.since_ns));
  return finding;
}

// device_stall too: ranks whose GPU has not finished a call that it has finished on others, which is not possible
// before every rank has given its part. What is left is their own: a kernel, or an error, that holds their GPU.

bool NeedsEverybody(const Call& call) {
  switch (functions::PatternOfNccl(call.function)) {
    case functions::Pattern::kAllReduce:
    case functions::Pattern::kAllGather:
    case functions::Pattern::kReduceScatter:
    case functions::Pattern::kAllToAll: return true;
    default: return false;
  }
}

struct Behind {
  const CommView* comm = nullptr;
  const Call* call = nullptr;  // the oldest that one of them has not finished
  std::vector<int> nodes, ahead;
  std::int64_t since_ns = 0;
};

// Only dumps of the calls under way tell it: what they lack is over. Marks of a GPU come later than the next call.
Behind BehindIn(const View& view, const CommView& comm) {
  Behind behind;
  std::uint64_t furthest = 0;
  for (const Member& member : comm.members)
    if (member.node >= 0 && member.box->active_only) furthest = std::max(furthest, view.Unfinished(member));
  for (const Member& member : comm.members) {
    if (member.node < 0 || !member.box->active_only) continue;
    const std::uint64_t unfinished = view.Unfinished(member);
    const Call* call = member.Kept(unfinished);
    if (unfinished == furthest)
      behind.ahead.push_back(member.node);
    else if (call != nullptr && member.Outstanding(*call) && NeedsEverybody(*call)) {
      behind.nodes.push_back(member.node);
      behind.since_ns = std::max(behind.since_ns, view.process(member).At(call->entered_ns));
      if (behind.call == nullptr || call->position < behind.call->position) behind.call = call;
    }
  }
  behind.comm = &comm;
  return behind;
}

Finding ExplainBehind(const View& view, const WaitGraph& graph, const Behind& behind, Certainty certainty) {
  Finding finding;
  finding.kind = Kind::kDeviceStall;
  finding.certainty = certainty;
  std::vector<int> culprits, ahead;
  for (const int node : behind.nodes) culprits.push_back(view.nodes[node].rank);
  for (const int node : behind.ahead) ahead.push_back(view.nodes[node].rank);
  AddCulprits(view, std::move(culprits), &finding);
  AddVictims(view, graph, behind.nodes, &finding);
  finding.communicator = DescribeComm(*behind.comm);
  finding.position = behind.call->position;
  finding.calls = DescribeCalls(view, *behind.comm, behind.call->position);
  finding.began_at_ns = ToRealtime(view, behind.since_ns);
  finding.summary =
      fmt::format("The GPU{} of {} {} not finished {}, collective {} of {}, and that of {} {}.",
                  finding.culprits.size() == 1 ? "" : "s", Ranks(finding.culprits),
                  finding.culprits.size() == 1 ? "has" : "have", CallText(*behind.call), behind.call->position,
                  CommText(*behind.comm), Ranks(ahead), ahead.size() == 1 ? "has" : "have");
  finding.evidence = {fmt::format("{} could not finish it before {} had given {} part", Ranks(ahead),
                                  Ranks(finding.culprits), finding.culprits.size() == 1 ? "its" : "their"),
                      "the dumps do not tell whether a kernel, an error of CUDA or the process itself holds it up"};
  finding.next_steps = {
      "look for an Xid or an error of CUDA on their nodes: `dmesg -T | grep -i xid`, `nvidia-smi`, their logs",
      "see what their GPUs run: `cuda-gdb -p PID` with `info cuda kernels`, and their threads: `ncclwatch stacks PID`"};
  return finding;
}

}  // namespace

std::vector<Finding> FindGpusBehind(const Facts& facts) {
  const View& view = facts.view;
  Behind most;
  for (const CommView& comm : view.comms) {
    if (!comm.comparable || SpeaksMpi(comm)) continue;
    Behind behind = BehindIn(view, comm);
    if (!behind.ahead.empty() && behind.nodes.size() > most.nodes.size()) most = std::move(behind);
  }
  if (most.nodes.empty()) return {};
  const std::optional<Certainty> certainty = ByTime(view, view.now_ns - most.since_ns);
  if (!certainty) return {};
  Finding finding = ExplainBehind(view, facts.graph, most, *certainty);
  // That they make no further call follows from it.
  for (const int node : most.nodes) facts.graph.blocked[node] = 1;
  return {std::move(finding)};
}

std::vector<Finding> FindStuckCalls(const Facts& facts) {
  const View& view = facts.view;
  const WaitGraph& graph = facts.graph;
  std::vector<Finding> findings;
  for (const Stuck& stuck : FindStuck(view, graph)) {
    const std::optional<Certainty> certainty = ByTime(view, view.now_ns - stuck.since_ns);
    if (!certainty) continue;
    std::optional<Finding> device = ExplainDeviceStall(view, stuck, *certainty);
    findings.push_back(device ? std::move(*device) : Explain(view, stuck, *certainty));
  }
  return findings;
}

}  // namespace ncclwatch::diagnosis
