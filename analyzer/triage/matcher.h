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

// Made once; its const functions may be called from several threads, each with a scratch of its own.
class Matcher {
 public:
  // An error names the rule whose pattern has no fixed text of six letters at least.
  static absl::StatusOr<Matcher> Make(std::vector<Rule> rules);
  ~Matcher();
  Matcher(Matcher&& other) noexcept;
  Matcher& operator=(Matcher&& other) noexcept;

  class Scratch {  // of one thread
   public:
    explicit Scratch(const Matcher& matcher);
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class Matcher;
    void* memory_ = nullptr;
  };
  struct Hit {
    std::size_t end = 0;  // offset behind the text
    int atom = 0;
  };
  // Where in `block` stand texts that patterns need, or with which tracebacks begin, by offset.
  void Search(std::string_view block, Scratch* scratch, std::vector<Hit>* hits) const;

  // Indices into rules() that the line matches, ascending, given the texts that are in it. Rules of tracebacks are not
  // among them: FieldsOf knows.
  std::vector<std::size_t> RulesOf(std::string_view line, const std::vector<int>& atoms) const;
  Fields FieldsOf(std::size_t rule, std::string_view line) const;  // empty too if the line does not match

  const std::vector<Rule>& rules() const;

 private:
  struct Parts;
  explicit Matcher(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ncclwatch::analyzer
