// transport_stall: a call that everybody has launched, nothing known is before it on any of the GPUs, and it does not
// end. Without start marks a GPU that is held up by other work before it looks the same.
#include <fmt/format.h>

#include "watchdog/diagnosis/model/text.h"
#include "watchdog/diagnosis/rules/device.h"
#include "watchdog/diagnosis/rules/rules.h"
#include "watchdog/diagnosis/waits/kernels.h"

namespace ncclwatch::diagnosis {
namespace {

// That all GPUs have begun it leaves nothing but the transport.
void AddEvidence(const View& view, const Stuck& stuck, Finding* finding) {
  const std::vector<int> begun = stuck.RanksWhere(view, Begun::kYes);
  finding->evidence = {"all NCCL work that they launched before it has finished"};
  if (begun == finding->victims) {
    finding->evidence.push_back(
        "the GPU of each of them has begun it (start marks): no rank is missing and nothing "
        "before the call holds it up, so it is the network, NVLink or a GPU");
    return;
  }
  if (!begun.empty()) finding->evidence.push_back("the GPU of " + Ranks(begun) + " has begun it (start marks)");
  finding->evidence.push_back(
      "the marks show where calls end, not where they begin: a GPU that other work holds up before the "
      "call looks the same");
  if (SourceText(view) != "dump")
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

}  // namespace

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
