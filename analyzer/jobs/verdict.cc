#include "analyzer/jobs/verdict.h"

#include <nlohmann/json.hpp>

#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer {
namespace {

std::string TextOf(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::optional<Verdict> ReadVerdict(const std::string& directory) {
  Verdict verdict;
  verdict.path = directory + "/" + kDiagnosisJson;
  constexpr std::size_t kLimit = 16 << 20;
  const auto text = rundir::ReadSmall(descriptors::Directory::Named(directory), kDiagnosisJson, kLimit);
  if (!text) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object() || !TextOf(json, "schema").starts_with("ncclwatch.diagnosis/")) return std::nullopt;
  verdict.text = *text;
  const auto findings = json.find("findings");
  if (findings != json.end() && findings->is_array() && !findings->empty() && findings->front().is_object()) {
    verdict.healthy = false;
    verdict.kind = TextOf(findings->front(), "kind");
    verdict.certainty = TextOf(findings->front(), "certainty");
    const auto culprits = findings->front().find("culprits");
    if (culprits != findings->front().end() && culprits->is_array()) verdict.culprits = culprits->size();
    verdict.summary = TextOf(findings->front(), "summary");
  }
  return verdict;
}

bool HasFault(const std::string& directory) {
  const auto verdict = ReadVerdict(directory);
  return verdict && !verdict->healthy;
}

}  // namespace ncclwatch::analyzer
