#include "analyzer/investigate/words.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/model/text.h"

namespace ncclwatch::investigate {

using analyzer::Told;
using diagnosis::Finding;
using diagnosis::Kind;

bool IsOfNumbers(Kind kind) { return kind >= Kind::kNumericFault && kind <= Kind::kCheckpointOverdue; }

std::string At(std::int64_t ns) { return diagnosis::UtcTime(ns); }
std::string At(absl::Time time) { return diagnosis::UtcTime(absl::ToUnixNanos(time)); }
std::string Place(const Told& told) { return fmt::format("{}:{}", told.first.file, told.first.line); }
std::string Quoted(const Told& told) {
  constexpr std::size_t kMost = 300;
  const std::string& text = told.first.text;
  return fmt::format("{}: `{}`", Place(told), text.size() > kMost ? text.substr(0, kMost) + "..." : text);
}

std::string WhoseText(const Told& told) {
  return told.ranks.empty() ? "a rank that the logs do not name" : diagnosis::Ranks(told.ranks);
}

bool IsOfCulprit(const Told& told, const Finding& finding) {
  return std::any_of(told.ranks.begin(), told.ranks.end(), [&](int rank) {
    return std::binary_search(finding.culprits.begin(), finding.culprits.end(), rank);
  });
}

}  // namespace ncclwatch::investigate
