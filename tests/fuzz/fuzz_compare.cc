// Two files of numbers, as CSV and as JSON, and the verdict over them.
#include <algorithm>
#include <cmath>

#include "analyzer/compare/verdict.h"
#include "tests/fuzz/scratch_file.h"

using namespace ncclwatch;
using testing::Require;

namespace {

using Reader = absl::Status (*)(const std::string& path, compare::Side* side);

compare::Side Read(Reader read, std::string_view text) {
  compare::Side side{.name = "side", .paths = {"side"}, .metrics = {}, .environment = {}, .problems = {}, .notes = {}};
  read(testing::WriteScratch("numbers", text), &side).IgnoreError();
  for (const auto& [name, metric] : side.metrics)
    for (const compare::Samples& trial : metric.trials)
      Require(!trial.empty() && std::all_of(trial.begin(), trial.end(), [](double one) { return std::isfinite(one); }));
  return side;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [before, after] = testing::Halves(data, size);
  for (const Reader read : {Reader{compare::AddCsv}, Reader{compare::AddJson}}) {
    const compare::Comparison found = compare::Compare(Read(read, before), Read(read, after), {}, std::nullopt);
    compare::Name(found.verdict);
    for (const compare::Compared& one : found.metrics) {
      Require(one.before.n > 0 && one.after.n > 0);
      if (one.change.measured) Require(one.change.low <= one.change.high);
    }
  }
  return 0;
}
