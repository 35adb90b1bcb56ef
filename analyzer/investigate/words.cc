#include "analyzer/investigate/words.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/model/text.h"

namespace ncclwatch::investigate {

using analyzer::TriageFinding;
using diagnosis::Finding;
using diagnosis::Kind;

bool IsOfNumbers(Kind kind) { return kind >= Kind::kNumericFault && kind <= Kind::kCheckpointOverdue; }

std::string At(std::int64_t ns) { return diagnosis::UtcTime(ns); }
std::string At(absl::Time time) { return diagnosis::UtcTime(absl::ToUnixNanos(time)); }
std::string Place(const TriageFinding& reported) {
  return fmt::format("{}:{}", reported.first.file, reported.first.line);
}
std::string Quoted(const TriageFinding& reported) {
  constexpr std::size_t kMost = 300;
  const std::string& text = reported.first.text;
  return fmt::format("{}: `{}`", Place(reported), text.size() > kMost ? text.substr(0, kMost) + "..." : text);
}

std::string WhoseText(const TriageFinding& reported) {
  return reported.ranks.empty() ? "a rank that the logs do not name" : diagnosis::Ranks(reported.ranks);
}

bool IsOfCulprit(const TriageFinding& reported, const Finding& finding) {
  return std::any_of(reported.ranks.begin(), reported.ranks.end(), [&](int rank) {
    return std::binary_search(finding.culprits.begin(), finding.culprits.end(), rank);
  });
}

}  // namespace ncclwatch::investigate
