// Which rules a line matches. Most lines match none: a search for the texts that the patterns need comes first.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ncclwatch::analyzer {

// One pattern of a log line and what it means. The project's own rules are in rules.toml; users add theirs.

enum class Role {
  kCause,         // may be where it began
  kEcho,          // what follows from a cause elsewhere; the cause where nothing else is found
  kConfirmation,  // what a launcher or scheduler says of an end that was seen
  kSuccess,       // the job, or the rank that writes it, has done its work
};
enum class Confidence { kSuspected, kLikely, kCertain };

std::string_view Name(Role role);
std::string_view Name(Confidence confidence);

struct Rule {
  std::string id;        // "cuda.out_of_memory"
  int line = 0;          // of its file
  std::string category;  // as the contract lists them
  Role role = Role::kCause;
  Confidence confidence = Confidence::kLikely;
  // Generic: an exception, a signal, an exit status. A cause that says more, close in time, is told before it.
  bool generic = false;
  bool kernel = false;     // a line of the kernel's log: it may be about another job
  bool weak = false;       // healthy jobs write it too: it counts only if something else shows a failure
  bool peer = false;       // a rank that lost another one writes it too
  std::string end;         // how a rank ended of which the line speaks: a name of EndKind in ends.h; empty: not said
  std::string restart;     // advice for whoever restarts; empty: that of the category
  bool traceback = false;  // the last line of a Python traceback that no other rule knows
  // RE2, any of them; named groups become fields. `rank`, `host`, `pid` and `local_rank` say whose line it is.
  std::vector<std::string> patterns;
  std::string summary;  // "{field}" is replaced; what stands in [] is left out if a field in it is empty
  std::vector<std::string> now, for_good;
};

// By line. TOML: a table for each rule, named by its id. `source` is for messages. Errors name the rule.
absl::StatusOr<std::vector<Rule>> ParseRules(std::string_view text, const std::string& source);

std::string_view OwnRules();  // the text of rules.toml

// In front of those that are there, and instead of those of the same id.
void AddRules(std::vector<Rule> more, std::vector<Rule>* rules);

inline constexpr std::string_view kTracebackBegin = "Traceback (most recent call last)";

using LineFields = std::vector<std::pair<std::string, std::string>>;

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

  // Index into rules() of the first that the line matches. Rules of tracebacks are not tried: FieldsOf knows them.
  std::optional<std::size_t> RuleOf(std::string_view line) const;
  bool NamesRank(std::size_t rule) const;                              // whether a group of it is called `rank`
  bool Has(std::size_t rule, std::string_view line) const;             // whether the line matches
  LineFields FieldsOf(std::size_t rule, std::string_view line) const;  // empty too if the line does not match

  const std::vector<Rule>& rules() const;

 private:
  struct Parts;
  explicit Matcher(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ncclwatch::analyzer
