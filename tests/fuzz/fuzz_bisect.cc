// bisect's state, its list of items and its files of variables.
#include <numeric>

#include "analyzer/bisect/question.h"
#include "analyzer/bisect/state.h"
#include "tests/fuzz/scratch_file.h"

using namespace ncclwatch;
using testing::Require;

namespace {

void Try(const absl::StatusOr<bisect::Question>& question) {
  if (!question.ok()) return;
  bisect::Items items(question->items.size());
  std::iota(items.begin(), items.end(), std::size_t{0});
  Require(NamesOf(*question, items) == question->items);
  const bisect::Trial trial = TrialWith(*question, items, {"train", "--on={items}", "{items}", "a {items} b"}, "file");
  Require(trial.set.at("NCCLWATCH_ITEMS") == "file");
}

// Answers that are added are known again, whatever was in the file.
void Keep(std::string_view text) {
  const std::string path = testing::WriteScratch("state", text);
  bisect::State state;
  if (!state.Open(path, "q").ok()) return;
  while (state.Known("a")) continue;
  bisect::Observation one;
  one.question = "more";
  one.outcome = bisect::Outcome::kBad;
  state.Add(one);
  Require(state.all().back().question == "more");
  bisect::State again;
  Require(again.Open(path, "q").ok());
  for (std::size_t i = 0; i + 1 < state.all().size(); ++i) Require(again.Known("a") != nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [one, other] = testing::Halves(data, size);
  Try(bisect::QuestionOfItems(testing::WriteScratch("items", one), "{items}"));
  Try(bisect::QuestionOfVariables(testing::WriteScratch("good", one), testing::WriteScratch("bad", other)));
  Keep(one);
  return 0;
}
