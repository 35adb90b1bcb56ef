// Which rules a line matches. Most lines match none: a search for the texts that the patterns need comes first.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/triage/rule.h"

namespace ncclwatch::analyzer {

inline constexpr std::string_view kTracebackBegin = "Traceback (most recent call last)";

using Fields = std::vector<std::pair<std::string, std::string>>;

// Made once; its const functions may be called from several threads.
class Matcher {
 public:
  // An error names the rule whose pattern has no fixed text of six letters at least.
  static absl::StatusOr<Matcher> Make(std::vector<Rule> rules);
  ~Matcher();
  Matcher(Matcher&& other) noexcept;
  Matcher& operator=(Matcher&& other) noexcept;

  // Offset behind the first text in `block`, from offset `from` on, that some pattern needs or with which a traceback
  // begins; npos if there is none.
  std::size_t Next(std::string_view block, std::size_t from) const;

  // Indices into rules() that the line matches, ascending. Rules of tracebacks are not among them: FieldsOf knows.
  std::vector<std::size_t> RulesOf(std::string_view line) const;
  Fields FieldsOf(std::size_t rule, std::string_view line) const;  // empty too if the line does not match

  const std::vector<Rule>& rules() const;

 private:
  struct Parts;
  explicit Matcher(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ncclwatch::analyzer
