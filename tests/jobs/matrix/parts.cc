// Which part of the machine is slow, told in three ways of one job: by its black boxes, by what its leaders tell one
// another while it runs, and by lines of NCCL Inspector.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/import/inspector/table.h"
#include "core/nodes/steps_code.h"
#include "core/slow/find.h"
#include "core/steps/step_follower.h"
#include "core/view/from_boxes.h"
#include "core/view/view.h"
#include "tests/jobs/matrix/judge.h"
#include "tests/jobs/matrix/modes.h"
#include "tests/jobs/simulator/inspector_lines.h"
#include "tests/jobs/simulator/slow_job.h"

namespace ncclwatch::jobs {
namespace {

namespace inspector = analyzer::import::inspector;
using diagnosis::Finding;
using diagnosis::SlowContext;
using Findings = std::vector<Finding>;

constexpr const char* kParts[] = {"healthy", "straggler", "nic", "pair", "switch", "whole_switch", "network"};

// Steps told one by one, as bytes, and joined.
Findings FindLive(const Generated& made, const SlowContext& context) {
  diagnosis::ReportedSteps steps;
  for (int rank = 0; rank < made.job.ranks; ++rank) {
    const std::unique_ptr<BoxMemory> memory = MakeBox(made, rank);
    const auto box = reader::MappedBox::Borrow(memory->header(), BoxName(made, rank));
    const auto loop = diagnosis::FindLoop(*box, 4096);
    if (!loop) continue;
    diagnosis::StepFollower follower(*box, 0);
    follower.Follow(*loop);
    while (follower.Poll(INT64_MAX, 4096) > 1) {  // the last call may never return
      std::vector<diagnosis::ReportedRank> reported(1, follower.Take());
      reported.front().boot_id = box->Image().boot_id;
      reported.front().pid_namespace = box->header().identity.pid_namespace;
      for (const std::string& body : nodes::WriteSteps(reported))
        if (auto read = nodes::ReadSteps(body))
          for (diagnosis::ReportedRank& one : *read) steps.Take(std::move(one));
    }
  }
  const diagnosis::Snapshot snapshot = SnapshotOf(made);
  const diagnosis::View view = diagnosis::MakeView(snapshot);
  return diagnosis::FindSlowSteps(view, steps.Table(view), context);
}

Findings FindInLines(const Generated& made, const SlowContext& context) {
  inspector::Recording recording;
  for (int rank = 0; rank < made.job.ranks; ++rank)
    inspector::ReadText(BoxName(made, rank), InspectorLines(made, rank), &recording);
  inspector::Job job = inspector::MakeJob(recording);
  const diagnosis::Snapshot snapshot = diagnosis::FromBoxes(std::move(job.boxes));
  return diagnosis::FindSlowSteps(diagnosis::MakeView(snapshot), job.table, context);
}

diagnosis::Topology LeavesOf(const Generated& made, int leaf_nodes) {
  std::string text, wrong;
  for (int node = 0; node < made.job.nodes(); node += leaf_nodes)
    text += fmt::format("SwitchName=leaf{} Nodes=node[{}-{}]\n", node / leaf_nodes, node, node + leaf_nodes - 1);
  return diagnosis::ParseTopology(text, &wrong);
}

// The first finding says it; nothing else may be accused of its own.
bool IsRight(const Findings& findings, const SlowTruth& truth) {
  if (truth.answers.empty() || findings.empty()) return truth.answers.empty() && findings.empty();
  const SlowAnswer& answer = truth.answers.front();
  return findings.front().culprits == answer.culprits && answer.kinds.front() == diagnosis::Name(findings.front().kind);
}

struct Way {
  const char* name;
  Findings (*find)(const Generated& made, const SlowContext& context);
};
constexpr Way kWays[] = {
    {"boxes",
     [](const Generated& made, const SlowContext& context) { return diagnosis::FindSlow(SnapshotOf(made), context); }},
    {"live", FindLive},
    {"inspector", FindInLines},
};

}  // namespace

int RunParts(const Options& options) {
  const std::uint64_t first = options.Number("first", 1), seeds = options.Number("seeds", 5);
  const int ranks = static_cast<int>(options.Number("ranks", 64));
  const auto least = static_cast<std::uint64_t>(options.Number("least", 96));
  bool good = true;
  std::printf("%-14s %6s %8s %8s %10s\n", "slow", "jobs", "boxes", "live", "inspector");
  for (const std::string& fault : options.List("fault", {std::begin(kParts), std::end(kParts)})) {
    std::uint64_t jobs = 0, right[std::size(kWays)] = {};
    for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
      Generated made;
      SlowTruth truth;
      if (!GenerateSlow({fault, fault == "healthy" ? "nic" : fault, ranks, seed}, &made, &truth)) continue;
      ++jobs;
      SlowContext context;
      if (seed % 2 == 0) context.topology = LeavesOf(made, LeafNodes(ranks));
      for (std::size_t way = 0; way < std::size(kWays); ++way) {
        const Findings findings = kWays[way].find(made, context);
        if (IsRight(findings, truth)) {
          ++right[way];
          continue;
        }
        std::printf("job_matrix parts --fault %s --ranks %d --first %llu --seeds 1, %s: %s\n", fault.c_str(), ranks,
                    static_cast<unsigned long long>(seed), kWays[way].name, truth.story.c_str());
        for (const Finding& one : findings)
          std::printf("    %s: %s\n", std::string(diagnosis::Name(one.kind)).c_str(), one.summary.c_str());
      }
    }
    std::printf("%-14s %6llu", fault.c_str(), static_cast<unsigned long long>(jobs));
    for (const std::uint64_t one : right) {
      std::printf(" %8llu", static_cast<unsigned long long>(one));
      good = good && 100 * one >= least * jobs;
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return good ? 0 : 1;
}

}  // namespace ncclwatch::jobs
