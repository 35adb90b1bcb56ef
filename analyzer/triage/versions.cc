#include "analyzer/triage/versions.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ncclwatch::analyzer {
namespace {

bool IsSymptomOf(const Triage& triage, const std::vector<std::string>& symptoms) {
  return std::any_of(symptoms.begin(), symptoms.end(), [&](const std::string& symptom) {
    if (triage.causes.empty()) return symptom == "silence" && triage.fell_silent;
    return symptom == triage.causes.front().rule->id || symptom == triage.causes.front().rule->category;
  });
}

}  // namespace

Versions VersionsIn(const std::vector<LogFile>& files) {
  constexpr std::size_t kMostFiles = 256, kFirstBytes = 256 << 10;
  Versions versions;
  for (std::size_t i = 0; i < std::min(files.size(), kMostFiles); ++i) {
    BlockReader reader(files[i].path);
    std::string_view block;
    if (reader.Next(&block)) AddVersionsIn(block.substr(0, kFirstBytes), &versions);
  }
  return versions;
}

std::vector<KnownBad> KnownBadOf(const std::vector<KnownBad>& entries, Versions versions, const Triage& triage) {
  std::vector<KnownBad> found;
  for (const TriageFinding& cause : triage.causes) AddVersionsIn(cause.first.text, &versions);
  const std::string_view text = triage.causes.empty() ? "" : std::string_view(triage.causes.front().first.text);
  for (const KnownBad& entry : entries)
    if (IsSymptomOf(triage, entry.symptoms) && HasVersion(entry, versions) && Matches(entry.text, text))
      found.push_back(entry);
  return found;
}

}  // namespace ncclwatch::analyzer
