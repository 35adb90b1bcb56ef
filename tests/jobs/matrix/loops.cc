// Where steps begin in the loops that people write, held against the program.
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/steps/step_table.h"
#include "core/view/view.h"
#include "tests/jobs/matrix/judge.h"
#include "tests/jobs/matrix/modes.h"
#include "tests/jobs/simulator/loops.h"

namespace ncclwatch::jobs {
namespace {

constexpr std::uint64_t kFigures = 64;  // so few are figures, of an evaluation before the step

struct Boundaries {
  std::uint64_t steps = 0, right = 0, wrong = 0;
  double percent() const { return steps == 0 ? 0 : 100.0 * static_cast<double>(right) / static_cast<double>(steps); }
};

// The first call of each training step of a rank, as a slot of its ring.
std::set<std::uint64_t> TrueBegins(const Generated& made, int rank) {
  std::set<std::uint64_t> begins;
  std::uint64_t slot = 0;
  for (int section = 0; section < made.job.sections(); ++section) {
    bool first = section > 0 && section <= made.job.steps;
    for (const Op& op : made.job.Section(rank, section)) {
      const bool records = op.what == Do::kCall || op.what == Do::kGroupStart || op.what == Do::kGroupEnd ||
                           op.what == Do::kInit || op.what == Do::kSplit || op.what == Do::kDestroy;
      if (!records) continue;
      const bool trains = op.what == Do::kCall && (IsMessage(op) || op.count > kFigures);
      if (trains && std::exchange(first, false)) begins.insert(slot);
      ++slot;
    }
  }
  return begins;
}

// Of the steps between the first and the last one that the table has.
void Add(const Generated& made, Boundaries* count) {
  const diagnosis::Snapshot snapshot = SnapshotOf(made);
  const diagnosis::View view = diagnosis::MakeView(snapshot);
  const diagnosis::StepTable table = diagnosis::MakeStepTable(view, SIZE_MAX);
  if (table.steps() == 0) {
    count->steps += static_cast<std::uint64_t>(made.job.steps);
    return;
  }
  for (std::size_t row = 0; row < table.ranks.size(); ++row) {
    const std::set<std::uint64_t> begins = TrueBegins(made, table.ranks[row]);
    std::set<std::uint64_t> found;
    for (const diagnosis::StepPart& part : table.parts[row])
      if (part.duration_ns > 0) found.insert(part.first_slot);
    // The last step that is whole has no successor.
    count->steps += begins.size() - 1;
    for (const std::uint64_t slot : found) ++(begins.contains(slot) ? count->right : count->wrong);
  }
}

}  // namespace

int RunLoops(const Options& options) {
  const std::uint64_t first = options.Number("first", 1), seeds = options.Number("seeds", 5);
  const double least = static_cast<double>(options.Number("least", 99));
  std::printf("%-28s %8s %8s %8s %9s\n", "loop", "steps", "right", "wrong", "right");
  bool good = true;
  for (const std::string& loop : options.List("loop", LoopNames())) {
    Boundaries count;
    for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
      Generated made;
      if (!GenerateLoop(loop, seed, &made)) return 2;
      Add(made, &count);
    }
    std::printf("%-28s %8llu %8llu %8llu %7.2f %%\n", loop.c_str(), static_cast<unsigned long long>(count.steps),
                static_cast<unsigned long long>(count.right), static_cast<unsigned long long>(count.wrong),
                count.percent());
    std::fflush(stdout);
    good = good && count.percent() >= least && count.wrong * 100 <= count.steps;
  }
  return good ? 0 : 1;
}

}  // namespace ncclwatch::jobs
