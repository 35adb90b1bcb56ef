#include "core/slow/number_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "core/model/text.h"
#include "core/report/advice.h"
#include "core/rules/describe.h"
#include "core/slow/checkpoints.h"
#include "core/slow/learning.h"
#include "core/slow/memory_growth.h"
#include "core/slow/numbers.h"
#include "core/slow/throughput.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr double kCriticalSpike = 50;  // robust standard deviations

using What = NumberFault::What;

std::string Who(const NumberFault& fault) { return WhoseText(fault.ranks, fault.all); }

std::string NotFiniteText(const NumberFault& fault) {
  return fmt::format("{} had NaN or Inf first: {} in step {}.", Capital(Who(fault)), fault.metric, fault.step);
}

std::string SpikeText(const NumberFault& fault) {
  return fmt::format("The loss jumped from {:.4g} to {:.4g} in step {}{}.", *fault.before, *fault.value, fault.step,
                     fault.ranks.empty() ? "" : ", on " + Ranks(fault.ranks));
}

std::string DivergenceText(const NumberFault& fault) {
  if (fault.ranks.empty())
    return fmt::format("{} differs between ranks in step {}: it must be the same.", fault.metric, fault.step);
  return fmt::format("{} of {} differs from that of the others in step {}: {:.9g} instead of {:.9g}.", fault.metric,
                     Ranks(fault.ranks), fault.step, *fault.value, *fault.before);
}

void AddNotFinite(const NumberFault& fault, NumberFinding* finding) {
  if (fault.before)
    finding->evidence.push_back(
        fmt::format("before, {} was {:.4g} (median over the ranks)", fault.metric, *fault.before));
  if (fault.gradient_rise) {
    finding->facts.push_back({kGradientRise, "1", *fault.gradient_rise});
    finding->evidence.push_back(
        *fault.gradient_rise >= kBlowUp
            ? fmt::format(
                  "the norm of the gradient was {:.3g} times its level in the step before: the training blew up",
                  *fault.gradient_rise)
            : fmt::format("the norm of the gradient was {:.3g} times its level in the step before: rather a bad sample "
                          "or a layer than a blow-up",
                          *fault.gradient_rise));
  }
  finding->next_steps.push_back(
      fmt::format("look at the batch of {} in step {}, and run that step again with "
                  "torch.autograd.set_detect_anomaly(True)",
                  Who(fault), fault.step));
}

void AddSpike(const NumberFault& fault, NumberFinding* finding) {
  finding->evidence.push_back(fmt::format("{:.0f} robust standard deviations above its level", fault.score));
  finding->next_steps.push_back(fmt::format(
      "see whether the loss comes back within some steps; if not, go back to the checkpoint before step {}, "
      "and leave its batch out",
      fault.step));
}

void AddDivergence(const NumberFault& fault, NumberFinding* finding) {
  finding->evidence.push_back(fmt::format("{} ranks said {} in that step", fault.all, fault.metric));
  finding->next_steps.push_back(
      "compare the parameters of the ranks tensor by tensor: the first that differs names the layer; then look at what "
      "differs between the ranks before it (seed, dropout, a reduction left out, memory errors of that GPU)");
}

NumberFinding FindingOf(const NumberFault& fault) {
  NumberFinding finding{.certainty = Certainty::kLikely,
                        .ranks = fault.ranks,
                        .step = fault.step,
                        .at_ns = fault.at_ns,
                        .effect = Effect{fault.metric, "", fault.before, fault.value}};
  switch (fault.what) {
    case What::kNotFinite:
      finding.kind = Kind::kNumericFault;
      finding.summary = NotFiniteText(fault);
      AddNotFinite(fault, &finding);
      break;
    case What::kSpike:
      finding.kind = Kind::kLossSpike;
      if (fault.score < kCriticalSpike) finding.certainty = Certainty::kSuspected;
      finding.summary = SpikeText(fault);
      AddSpike(fault, &finding);
      break;
    case What::kDivergence:
      finding.kind = Kind::kReplicaDivergence;
      finding.summary = DivergenceText(fault);
      AddDivergence(fault, &finding);
      break;
  }
  return finding;
}

// What breaks a training, then what slows it or wastes it.
std::vector<NumberFinding> Found(const std::vector<RankNumbers>& ranks, std::int64_t now_ns) {
  std::vector<NumberFinding> found;
  for (const NumberFault& fault : FindNumberFaults(ranks)) found.push_back(FindingOf(fault));
  for (std::optional<NumberFinding> one : {FindNotLearning(ranks), FindLossPlateau(ranks), FindMemoryGrowth(ranks),
                                           FindCheckpointOverdue(ranks, now_ns), FindSlowerProgram(ranks)})
    if (one) found.push_back(*std::move(one));
  return found;
}

Finding Made(const View& view, NumberFinding of, const std::set<int>& all) {
  Finding finding;
  finding.kind = of.kind;
  finding.certainty = of.certainty;
  AddCulprits(view, of.ranks, &finding);
  if (!of.ranks.empty())
    for (const int rank : all)
      if (!std::binary_search(of.ranks.begin(), of.ranks.end(), rank)) finding.victims.push_back(rank);
  finding.began_at_ns = ToRealtime(view, of.at_ns);
  finding.onset =
      Onset{static_cast<std::uint64_t>(std::max<std::int64_t>(0, of.step)), finding.began_at_ns, of.since_before};
  finding.effect = std::move(of.effect);
  finding.summary = std::move(of.summary);
  finding.facts = std::move(of.facts);
  finding.evidence = std::move(of.evidence);
  finding.next_steps = std::move(of.next_steps);
  AddAdvice(&finding);
  return finding;
}

}  // namespace

std::vector<Finding> NumberFindings(const View& view) {
  std::vector<const Process*> said;
  for (const Process& process : view.processes)
    if (!process.box->notes.empty() || !process.box->events.empty()) said.push_back(&process);
  std::vector<RankNumbers> ranks;
  std::set<int> all;
  for (const Process* const process : said) {
    // A training of one process needs no launcher.
    const int rank = process->box->rank < 0 && said.size() == 1 ? 0 : process->box->rank;
    if (rank < 0) continue;
    ranks.push_back({rank, process->shift_ns, &process->box->notes, &process->box->events});
    all.insert(rank);
  }
  std::vector<Finding> findings;
  for (NumberFinding& found : Found(ranks, view.now_ns)) findings.push_back(Made(view, std::move(found), all));
  return findings;
}

}  // namespace ncclwatch::diagnosis
