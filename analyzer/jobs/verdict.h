// The diagnosis.json that a leader (or `ncclwatch run`) left in a run directory.
#pragma once

#include <optional>
#include <string>

#include "core/model/finding.h"

namespace ncclwatch::analyzer {

inline constexpr char kDiagnosisJson[] = "diagnosis.json";
inline constexpr char kDiagnosisText[] = "diagnosis.txt";

struct Verdict {
  std::string path;  // of the file
  std::string text;  // its JSON
  diagnosis::Diagnosis diagnosis;
};
// None if there is no such file or it is no diagnosis.
std::optional<Verdict> ReadVerdict(const std::string& directory);
bool HasFault(const std::string& directory);

}  // namespace ncclwatch::analyzer
