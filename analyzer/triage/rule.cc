#include "analyzer/triage/rule.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "analyzer/files/toml.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::array<std::string_view, 15> kCategories = {
    "out_of_memory", "cuda",        "nccl",       "network",    "timeout", "hardware",   "numerics", "data",
    "filesystem",    "environment", "rendezvous", "terminated", "python",  "checkpoint", "mpi"};

constexpr std::array<std::pair<std::string_view, Role>, 3> kRoles = {
    {{"cause", Role::kCause}, {"echo", Role::kEcho}, {"confirmation", Role::kConfirmation}}};
constexpr std::array<std::pair<std::string_view, Confidence>, 3> kConfidences = {
    {{"suspected", Confidence::kSuspected}, {"likely", Confidence::kLikely}, {"certain", Confidence::kCertain}}};

template <typename Pairs, typename Value>
bool Find(const Pairs& pairs, std::string_view word, Value* value) {
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == word; });
  if (found != pairs.end()) *value = found->second;
  return found != pairs.end();
}

// Of one rule: reads its keys, and keeps what is wrong.
class Keys {
 public:
  explicit Keys(const toml::table& table) : table_(table) {}
  std::string Text(const char* key, bool needed) {
    const toml::node_view node = table_[key];
    if (node && !node.is_string()) Wrong(fmt::format("`{}` is not a text", key));
    if (!node && needed) Wrong(fmt::format("`{}` is missing", key));
    return node.value_or(std::string());
  }
  bool Flag(const char* key) {
    const toml::node_view node = table_[key];
    if (node && !node.is_boolean()) Wrong(fmt::format("`{}` is neither true nor false", key));
    return node.value_or(false);
  }
  std::vector<std::string> Texts(const char* key) {
    std::vector<std::string> texts;
    const toml::node_view node = table_[key];
    if (const auto one = node.value<std::string>()) return {*one};
    if (const toml::array* array = node.as_array())
      for (const toml::node& element : *array) texts.push_back(element.value_or(std::string()));
    else if (node)
      Wrong(fmt::format("`{}` is not a list of texts", key));
    return texts;
  }
  void RefuseOthers() {
    static const std::set<std::string_view> known = {"category", "role",      "confidence", "generic", "kernel",
                                                     "pattern",  "traceback", "summary",    "now",     "for_good"};
    for (const auto& [key, value] : table_)
      if (!known.count(key.str())) Wrong(fmt::format("`{}` is no key of a rule", key.str()));
  }
  void Wrong(std::string why) {
    if (why_.empty()) why_ = std::move(why);
  }
  const std::string& why() const { return why_; }

 private:
  const toml::table& table_;
  std::string why_;
};

Rule ReadRule(std::string_view id, Keys* keys) {
  Rule rule;
  rule.id = id;
  rule.category = keys->Text("category", true);
  if (std::find(kCategories.begin(), kCategories.end(), rule.category) == kCategories.end())
    keys->Wrong(fmt::format("`category` is one of {}", fmt::join(kCategories, ", ")));
  const std::string role = keys->Text("role", false), confidence = keys->Text("confidence", false);
  if (!role.empty() && !Find(kRoles, role, &rule.role)) keys->Wrong("`role` is cause, echo or confirmation");
  if (!confidence.empty() && !Find(kConfidences, confidence, &rule.confidence))
    keys->Wrong("`confidence` is suspected, likely or certain");
  rule.generic = keys->Flag("generic");
  rule.kernel = keys->Flag("kernel");
  rule.traceback = keys->Flag("traceback");
  rule.patterns = keys->Texts("pattern");
  if (rule.patterns.empty()) keys->Wrong("`pattern` is missing");
  rule.summary = keys->Text("summary", true);
  rule.now = keys->Texts("now");
  rule.for_good = keys->Texts("for_good");
  keys->RefuseOthers();
  for (const std::string& pattern : rule.patterns) {
    const RE2 parsed(pattern, RE2::Quiet);
    if (!parsed.ok()) keys->Wrong(fmt::format("`pattern`: {}", parsed.error()));
  }
  return rule;
}

// "[a.b]" is a table in a table: rules are the tables that have a pattern.
absl::Status ReadTables(const toml::table& table, const std::string& above, const std::string& source,
                        std::vector<Rule>* rules) {
  for (const auto& [key, value] : table) {
    const std::string id = above.empty() ? std::string(key.str()) : fmt::format("{}.{}", above, key.str());
    const toml::table* const below = value.as_table();
    if (!below) return absl::InvalidArgumentError(fmt::format("{}: `{}` stands outside of a rule", source, id));
    const bool groups =
        std::any_of(below->begin(), below->end(), [](const auto& row) { return row.second.is_table(); });
    if (groups) {
      const absl::Status status = ReadTables(*below, id, source, rules);
      if (!status.ok()) return status;
      continue;
    }
    Keys keys(*below);
    rules->push_back(ReadRule(id, &keys));
    rules->back().line = static_cast<int>(below->source().begin.line);
    if (!keys.why().empty())
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: rule {}: {}", source, below->source().begin.line, id, keys.why()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view Name(Role role) {
  for (const auto& [name, value] : kRoles)
    if (value == role) return name;
  return "";
}

std::string_view Name(Confidence confidence) {
  for (const auto& [name, value] : kConfidences)
    if (value == confidence) return name;
  return "";
}

absl::StatusOr<std::vector<Rule>> ParseRules(std::string_view text, const std::string& source) {
  const auto table = ParseToml(text, source);
  if (!table.ok()) return table.status();
  std::vector<Rule> rules;
  if (absl::Status status = ReadTables(*table, "", source, &rules); !status.ok()) return status;
  std::sort(rules.begin(), rules.end(), [](const Rule& a, const Rule& b) { return a.line < b.line; });
  return rules;
}

void AddRules(std::vector<Rule> more, std::vector<Rule>* rules) {
  const auto replaced = [&](const Rule& rule) {
    return std::any_of(more.begin(), more.end(), [&](const Rule& other) { return other.id == rule.id; });
  };
  rules->erase(std::remove_if(rules->begin(), rules->end(), replaced), rules->end());
  rules->insert(rules->begin(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace ncclwatch::analyzer
