#include "analyzer/ideal/ideal.h"

#include <nlohmann/json.hpp>

#include "analyzer/ideal/build.h"
#include "analyzer/report/sections.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::uint64_t kMostCallsOfIdeal = 2'000'000;  // a page is made in seconds

std::uint64_t CallsIn(const Recording& recording) {
  std::uint64_t calls = 0;
  for (const ProcessRecording& process : recording.processes()) calls += process.end_slot() - process.lost_calls();
  return calls;
}

}  // namespace

nlohmann::ordered_json IdealSection(const Recording& recording) {
  const auto none = [](const std::string& why) {
    return nlohmann::ordered_json{{"why_none", Printable(why)}, {"ideal", nullptr}};
  };
  if (CallsIn(recording) > kMostCallsOfIdeal) return none("the recording is too long for a page: see replay --ideal");
  const auto model = ideal::MakeModel(recording);
  if (!model.ok()) return none(std::string(model.status().message()));
  if (model->steps.size() < 2 && !ideal::HasOperations(recording)) return none("no steps were found");
  if (model->workers.size() < 2) return none("there is only one rank");
  const ideal::Result result = ideal::Analyze(*model, [](double) {});
  nlohmann::ordered_json json = ideal::ToJson(result);
  for (std::size_t i = 0; i < model->workers.size(); ++i) {
    json["ranks"][i]["stage"] = model->workers[i].stage;
    json["ranks"][i]["replica"] = model->workers[i].replica;
  }
  return {{"why_none", nullptr}, {"ideal", std::move(json)}};
}

}  // namespace ncclwatch::analyzer
