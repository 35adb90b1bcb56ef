#include <fmt/core.h>
#include <re2/re2.h>

#include <algorithm>
#include <initializer_list>

#include "analyzer/investigate/incident.h"
#include "core/model/text.h"

namespace ncclwatch::investigate {
namespace {

using diagnosis::Finding;
using diagnosis::Kind;

const Finding* FindingOf(const Material& material, std::initializer_list<Kind> kinds) {
  if (!material.run) return nullptr;
  for (const Finding& finding : material.run->diagnosis.findings)
    if (std::find(kinds.begin(), kinds.end(), finding.kind) != kinds.end()) return &finding;
  return nullptr;
}

Hypothesis Supported(const char* text, const Finding& finding) {
  return {
      text, Standing::kSupported,
      fmt::format("{} ({}), see the root cause", diagnosis::Name(finding.kind), diagnosis::Name(finding.certainty))};
}
Hypothesis RuledOut(const char* text, std::string by) { return {text, Standing::kRuledOut, std::move(by)}; }
Hypothesis Untested(const char* text, std::string by) { return {text, Standing::kUntested, std::move(by)}; }

// Why it is no proof that there is no finding of these kinds; empty: it is one. Each needs a rule that ran, on all that
// the job did, or that does not apply to it.
std::string WhyNoProof(const diagnosis::Diagnosis& all, std::initializer_list<Kind> kinds) {
  if (!all.missing.empty()) return all.missing.front();
  for (const Kind kind : kinds) {
    std::string why = fmt::format("no rule looked for {}", diagnosis::Name(kind));
    for (const diagnosis::CheckedRule& rule : all.checked) {
      if (std::find(rule.makes.begin(), rule.makes.end(), kind) == rule.makes.end()) continue;
      if (rule.covers == diagnosis::CheckedRule::Covers::kAll || !rule.applies) {
        why.clear();
        break;
      }
      why = fmt::format("the rule {} did not run: {}", rule.rule, rule.why);
    }
    if (!why.empty()) return why;
  }
  return "";
}

// By what all processes' boxes show, if all were watched.
Hypothesis ByBoxes(const Material& material, const char* text, std::initializer_list<Kind> kinds, const char* shown,
                   const char* command) {
  if (const Finding* const finding = FindingOf(material, kinds)) return Supported(text, *finding);
  if (!material.run) return Untested(text, fmt::format("no black box: {}", command));
  const diagnosis::Diagnosis& all = material.run->diagnosis;
  if (all.watched < all.expected)
    return Untested(text, fmt::format("{} of {} ranks were watched: {}", all.watched, all.expected, command));
  if (const std::string why = WhyNoProof(all, kinds); !why.empty())
    return Untested(text, fmt::format("{}: {}", why, command));
  return RuledOut(text, fmt::format("{}, of {} ranks", shown, all.watched));
}

// By what the logs say.
Hypothesis ByLogs(const Material& material, const char* text, std::initializer_list<std::string_view> categories) {
  if (!material.triage) return Untested(text, "no logs were given: `ncclwatch triage LOGDIR`");
  const auto is_one = [&](const analyzer::TriageFinding& reported) {
    return std::find(categories.begin(), categories.end(), reported.rule->category) != categories.end();
  };
  const auto& causes = material.triage->causes;
  if (const auto found = std::find_if(causes.begin(), causes.end(), is_one); found != causes.end())
    return {text, Standing::kSupported, fmt::format("{}:{}: {}", found->first.file, found->first.line, found->summary)};
  return RuledOut(text, fmt::format("no line of {} log files says so", material.log_files));
}

std::vector<Hypothesis> OfHang(const Material& material) {
  std::vector<Hypothesis> all = {
      ByBoxes(material, "A rank died or left", {Kind::kDeadRank, Kind::kEarlyExit, Kind::kMissingFinalize},
              "every process was alive, or ended with the others", "start the job under `ncclwatch run`"),
      ByBoxes(material, "A process was frozen (stopped, or in uninterruptible sleep)", {Kind::kFrozenProcess},
              "heartbeats went on", "`ncclwatch stacks`"),
      ByBoxes(material, "A rank did not come to the call: data loader, evaluation, a branch of its own",
              {Kind::kMissingParticipant, Kind::kStepMismatch}, "all ranks had made the call", "`ncclwatch stacks`"),
      ByBoxes(material, "Ranks made different calls",
              {Kind::kOrderMismatch, Kind::kArgumentMismatch, Kind::kPointToPointMismatch},
              "the fingerprints of all calls agree", "start the job under `ncclwatch run`"),
      ByBoxes(material, "Ranks wait for one another in a cycle", {Kind::kDeadlock}, "the graph of waits has no cycle",
              "start the job under `ncclwatch run`"),
      ByLogs(material, "A rank ran out of memory or had an exception first",
             {"out_of_memory", "python", "cuda", "data", "filesystem"}),
  };
  const char* const transport = "The network or a GPU stopped";
  if (const Finding* const finding = FindingOf(material, {Kind::kTransportStall, Kind::kDeviceStall}))
    all.push_back(Supported(transport, *finding));
  else if (FindingOf(material, {Kind::kMissingParticipant, Kind::kDeadRank, Kind::kFrozenProcess, Kind::kOrderMismatch,
                                Kind::kArgumentMismatch, Kind::kDeadlock, Kind::kStepMismatch, Kind::kEarlyExit,
                                Kind::kPointToPointMismatch}))
    all.push_back(RuledOut(transport, "the wait is explained without it"));
  else
    all.push_back(
        Untested(transport, "`NCCLWATCH_GPU=both` tells the two apart; `ncclwatch doctor --active` over all ranks"));
  return all;
}

// By the steps of the job.
Hypothesis BySteps(const Material& material, const char* text, std::initializer_list<Kind> kinds, const char* shown) {
  if (const Finding* const finding = FindingOf(material, kinds)) return Supported(text, *finding);
  if (!material.run || material.run->steps < 20)
    return Untested(text, "too few steps were recorded: `ncclwatch run --record DIR`");
  return RuledOut(text, fmt::format("{}, in {} steps", shown, material.run->steps));
}

std::vector<Hypothesis> OfSlowness(const Material& material) {
  std::vector<Hypothesis> all = {
      BySteps(material, "One rank holds up the others", {Kind::kStraggler}, "no rank is late by 3 % of a step"),
      BySteps(material, "A network link or switch has become slower", {Kind::kSlowCommunication},
              "no call of one size takes a fifth longer than before"),
      BySteps(material, "Computation has become slower everywhere", {Kind::kSlowCompute, Kind::kRegression},
              "steps did not become longer without another cause"),
      BySteps(material, "Input does not keep up", {Kind::kStarvedInput}, "no rank that is late was seen to read"),
      BySteps(material, "A checkpoint blocks", {Kind::kBlockingCheckpoint}, "no rank that is late was seen to write"),
      BySteps(material, "The pipeline idles", {Kind::kPipelineBubble}, "no pipeline, or its stages are even"),
  };
  all.push_back(Untested("A GPU is slowed by heat or power",
                         "`ncclwatch doctor --only gpu-throttle,gpu-health` on the hosts that are named"));
  all.push_back(Untested("Another job runs on these hosts", "`ncclwatch doctor --only load,gpu-memory`"));
  return all;
}

std::optional<double> FactOf(const Finding& finding, std::string_view name) {
  for (const diagnosis::Fact& fact : finding.facts)
    if (fact.name == name) return fact.value;
  return std::nullopt;
}

std::vector<Hypothesis> OfNumbers(const Material& material) {
  std::vector<Hypothesis> all;
  const Finding* const fault = FindingOf(material, {Kind::kNumericFault, Kind::kLossSpike});
  const char *const blow_up = "The training blew up (learning rate, precision)", *const sample =
                                                                                     "A bad sample, or one layer";
  const std::optional<double> rise = fault ? FactOf(*fault, diagnosis::kGradientRise) : std::nullopt;
  if (rise && *rise >= diagnosis::kBlowUp) {
    all.push_back(Supported(blow_up, *fault));
    all.push_back(RuledOut(sample, "the gradient's norm had risen the step before"));
  } else if (rise) {
    all.push_back(RuledOut(blow_up, "the gradient's norm was flat the step before"));
    all.push_back({sample, Standing::kSupported, "the gradient's norm was flat the step before"});
  } else {
    all.push_back(Untested(blow_up, "tell the gradient's norm: ncclwatch_metric(\"grad_norm\", ...)"));
    all.push_back(Untested(sample, "run the step again with the same samples"));
  }
  const char* const hardware = "A GPU computes wrongly";
  if (const Finding* const differs = FindingOf(material, {Kind::kReplicaDivergence}))
    all.push_back(Supported(hardware, *differs));
  else if (fault && fault->culprits.size() > 1 && fault->victims.empty())
    all.push_back(RuledOut(hardware, "several ranks had it in the same step"));
  else
    all.push_back(Untested(
        hardware, fmt::format("run the step again on another host; `ncclwatch bisect --hosts FILE -- CMD {{hosts}}`{}",
                              fault && fault->culprits.size() == 1
                                  ? fmt::format("; {} had it alone", diagnosis::Ranks(fault->culprits))
                                  : "")));
  all.push_back(ByLogs(material, "The logs say it", {"numerics"}));
  return all;
}

// From the text of torch's exception; none where it is another one's.
std::optional<double> GiB(const std::string& text, const char* pattern) {
  double value = 0;
  std::string unit;
  if (!RE2::PartialMatch(text, pattern, &value, &unit)) return std::nullopt;
  return unit == "MiB" ? value / 1024 : unit == "KiB" ? value / 1048576 : value;
}

// What this process holds, and what is free, are all that there is; or not.
Hypothesis OfOthersMemory(const std::string& text) {
  const char* const somebody = "Another process holds the GPU's memory";
  const auto total = GiB(text, R"(total capacity of ([\d.]+) ([KMG]iB))"),
             free = GiB(text, R"(of which ([\d.]+) ([KMG]iB) is free)"),
             own = GiB(text, R"(this process has ([\d.]+) ([KMG]iB) memory in use)");
  if (!total || !free || !own) return Untested(somebody, "`ncclwatch doctor --only gpu-memory` on its host");
  const double others = std::max(0.0, *total - *free - *own);
  const std::string by =
      fmt::format("of {:.2f} GiB {:.2f} were free and {:.2f} this process's own", *total, *free, *own);
  constexpr double kDriver_GiB = 1;
  return others > kDriver_GiB ? Hypothesis{somebody, Standing::kSupported, by} : RuledOut(somebody, by);
}

std::vector<Hypothesis> OfMemory(const Material& material, const analyzer::TriageFinding& cause) {
  std::vector<Hypothesis> all;
  const std::string& text = cause.first.text;
  const auto asked = GiB(text, R"(Tried to allocate ([\d.]+) ([KMG]iB))"),
             unused = GiB(text, R"(([\d.]+) ([KMG]iB) is reserved by PyTorch but unallocated)");
  const char* const fragments = "Memory is there, in pieces that are too small";
  if (asked && unused)
    all.push_back(
        *unused >= *asked
            ? Hypothesis{fragments, Standing::kSupported,
                         fmt::format("{:.2f} GiB were reserved and not allocated, {:.2f} asked for", *unused, *asked)}
            : RuledOut(fragments,
                       fmt::format("{:.2f} GiB were reserved and not allocated, {:.2f} asked for", *unused, *asked)));
  else
    all.push_back(Untested(fragments, "torch.cuda.memory_summary(); ncclwatch_metric(\"memory_reserved\", ...)"));
  all.push_back(OfOthersMemory(text));
  if (const Finding* const growth = FindingOf(material, {Kind::kMemoryGrowth}))
    all.push_back(Supported("Memory leaks", *growth));
  else
    all.push_back(
        Untested("Memory leaks", "tell ncclwatch_metric(\"memory_allocated\", ...) each step: a staircase is found"));
  all.push_back(Untested(
      "The model, the batch or a sequence is too large",
      fmt::format(
          "`ncclwatch doctor --parameters N --activations SIZE`; `ncclwatch bisect --size LO..HI -- CMD {{n}}`{}",
          cause.ranks.size() > 1 ? "; several ranks ran out" : "")));
  return all;
}

std::vector<Hypothesis> OfFailure(const Material& material) {
  const analyzer::TriageFinding* const cause = FirstCause(material);
  if (cause && cause->rule->category == "out_of_memory") return OfMemory(material, *cause);
  return {
      ByLogs(material, "Memory ran out", {"out_of_memory"}),
      ByLogs(material, "Hardware failed", {"hardware"}),
      ByLogs(material, "The network failed", {"network", "rendezvous"}),
      ByLogs(material, "CUDA or NCCL reported an error first", {"cuda", "nccl"}),
      ByLogs(material, "The program raised an exception", {"python", "data", "numerics", "checkpoint", "environment"}),
      ByLogs(material, "A file system failed", {"filesystem"}),
      ByLogs(material, "Somebody ended the job", {"terminated"})};
}

}  // namespace

std::vector<Hypothesis> HypothesesOf(const Material& material, Class kind) {
  switch (kind) {
    case Class::kHang: return OfHang(material);
    case Class::kSlow: return OfSlowness(material);
    case Class::kNumbers: return OfNumbers(material);
    case Class::kFailure: return OfFailure(material);
    case Class::kHealthy: break;
  }
  return {};
}

}  // namespace ncclwatch::investigate
