#include "analyzer/jobs/verdict.h"

#include "analyzer/jobs/diagnosis_json.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer {

std::optional<Verdict> ReadVerdict(const std::string& directory) {
  constexpr std::size_t kLimit = 16 << 20;
  auto text = rundir::ReadSmall(descriptors::Directory::Named(directory), kDiagnosisJson, kLimit);
  if (!text) return std::nullopt;
  auto diagnosis = ReadDiagnosisJson(*text);
  if (!diagnosis) return std::nullopt;
  return Verdict{directory + "/" + kDiagnosisJson, *std::move(text), *std::move(diagnosis)};
}

bool HasFault(const std::string& directory) {
  const auto verdict = ReadVerdict(directory);
  return verdict && !verdict->diagnosis.harmless();
}

}  // namespace ncclwatch::analyzer
