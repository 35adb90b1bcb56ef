#include "analyzer/triage/matcher.h"

#include <fmt/format.h>
#include <re2/filtered_re2.h>
#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "analyzer/files/toml.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::array<std::string_view, 15> kCategories = {
    "out_of_memory", "cuda",        "nccl",       "network",    "timeout", "hardware",   "numerics", "data",
    "filesystem",    "environment", "rendezvous", "terminated", "python",  "checkpoint", "mpi"};

constexpr std::array<std::pair<std::string_view, Role>, 4> kRoles = {{{"cause", Role::kCause},
                                                                      {"echo", Role::kEcho},
                                                                      {"confirmation", Role::kConfirmation},
                                                                      {"success", Role::kSuccess}}};
constexpr std::array<std::pair<std::string_view, Confidence>, 3> kConfidences = {
    {{"suspected", Confidence::kSuspected}, {"likely", Confidence::kLikely}, {"certain", Confidence::kCertain}}};

constexpr std::array<std::string_view, 6> kEnds = {"signal", "exit", "killed", "time_limit", "cancelled", "normal"};
constexpr std::array<std::string_view, 4> kAdvice = {"restart", "without_hosts", "fix_first", "wait"};

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
                                                     "pattern",  "traceback", "summary",    "now",     "for_good",
                                                     "weak",     "end",       "restart",    "peer"};
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
  if (!role.empty() && !Find(kRoles, role, &rule.role)) keys->Wrong("`role` is cause, echo, confirmation or success");
  if (!confidence.empty() && !Find(kConfidences, confidence, &rule.confidence))
    keys->Wrong("`confidence` is suspected, likely or certain");
  rule.generic = keys->Flag("generic");
  rule.kernel = keys->Flag("kernel");
  rule.weak = keys->Flag("weak");
  rule.peer = keys->Flag("peer");
  rule.end = keys->Text("end", false);
  if (!rule.end.empty() && std::find(kEnds.begin(), kEnds.end(), rule.end) == kEnds.end())
    keys->Wrong(fmt::format("`end` is one of {}", fmt::join(kEnds, ", ")));
  rule.restart = keys->Text("restart", false);
  if (!rule.restart.empty() && std::find(kAdvice.begin(), kAdvice.end(), rule.restart) == kAdvice.end())
    keys->Wrong(fmt::format("`restart` is one of {}", fmt::join(kAdvice, ", ")));
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

constexpr int kLeastText = 6;  // shorter ones stand in every other line

LineFields NamedGroups(const RE2& pattern, const re2::StringPiece& text) {
  std::vector<re2::StringPiece> groups(static_cast<std::size_t>(pattern.NumberOfCapturingGroups()) + 1);
  LineFields fields;
  if (!pattern.Match(text, 0, text.size(), RE2::UNANCHORED, groups.data(), static_cast<int>(groups.size())))
    return fields;
  for (const auto& [index, name] : pattern.CapturingGroupNames()) {
    const re2::StringPiece& group = groups[static_cast<std::size_t>(index)];
    if (group.data()) fields.emplace_back(name, std::string(group.data(), group.size()));
  }
  return fields;
}

// Texts are compared byte by byte, in any case of letters: logs are not always UTF-8.
RE2::Options OfTexts() {
  constexpr std::int64_t kMemory = 64 << 20;
  RE2::Options options(RE2::Quiet);
  options.set_encoding(RE2::Options::EncodingLatin1);
  options.set_case_sensitive(false);
  options.set_never_capture(true);
  options.set_max_mem(kMemory);
  return options;
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

struct Matcher::Parts {
  std::vector<Rule> rules;
  std::vector<std::vector<std::unique_ptr<RE2>>> of_rules;  // their patterns
  std::vector<bool> names_rank;                             // by rule
  re2::FilteredRE2 filter{kLeastText};                      // those that any line may match
  std::vector<std::size_t> rule_of_filter;                  // by its ids
  RE2::Set texts{OfTexts(), RE2::UNANCHORED};               // that those need
  int texts_count = 0;
  std::unique_ptr<RE2> any_text;  // one of them, or kTracebackBegin
};

Matcher::Matcher(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Matcher::~Matcher() = default;
Matcher::Matcher(Matcher&& other) noexcept = default;
Matcher& Matcher::operator=(Matcher&& other) noexcept = default;

const std::vector<Rule>& Matcher::rules() const { return parts_->rules; }

absl::StatusOr<Matcher> Matcher::Make(std::vector<Rule> rules) {
  auto parts = std::make_unique<Parts>();
  parts->rules = std::move(rules);
  for (std::size_t i = 0; i < parts->rules.size(); ++i) {
    auto& patterns = parts->of_rules.emplace_back();
    parts->names_rank.push_back(false);
    for (const std::string& pattern : parts->rules[i].patterns) {
      patterns.push_back(std::make_unique<RE2>(pattern, RE2::Quiet));
      if (patterns.back()->NamedCapturingGroups().count("rank")) parts->names_rank.back() = true;
      int id = 0;
      if (parts->rules[i].traceback) continue;
      if (parts->filter.Add(pattern, RE2::Quiet, &id) != RE2::NoError)
        return absl::InvalidArgumentError(
            fmt::format("rule {}: {} is no regular expression", parts->rules[i].id, pattern));
      parts->rule_of_filter.push_back(i);
    }
  }
  std::vector<std::string> atoms;
  parts->filter.Compile(&atoms);
  std::vector<int> always;
  parts->filter.AllPotentials({}, &always);
  if (!always.empty())
    return absl::InvalidArgumentError(fmt::format(
        "rule {}: a pattern can match without any fixed text of {} letters; it would be tried on every line",
        parts->rules[parts->rule_of_filter[static_cast<std::size_t>(always.front())]].id, kLeastText));
  std::string any_text = RE2::QuoteMeta(re2::StringPiece(kTracebackBegin.data(), kTracebackBegin.size()));
  for (const std::string& atom : atoms) {
    const std::string text = RE2::QuoteMeta(atom);
    parts->texts_count += parts->texts.Add(text, nullptr) >= 0;
    any_text += "|" + text;
  }
  parts->any_text = std::make_unique<RE2>(any_text, OfTexts());
  if (!parts->texts.Compile() || !parts->any_text->ok())
    return absl::InternalError("the rules' texts cannot be searched: " + parts->any_text->error());
  return Matcher(std::move(parts));
}

std::size_t Matcher::Next(std::string_view block, std::size_t from) const {
  re2::StringPiece found;
  if (!parts_->any_text->Match(re2::StringPiece(block.data(), block.size()), from, block.size(), RE2::UNANCHORED,
                               &found, 1))
    return std::string_view::npos;
  return static_cast<std::size_t>(found.data() - block.data()) + found.size();
}

std::optional<std::size_t> Matcher::RuleOf(std::string_view line) const {
  const re2::StringPiece text(line.data(), line.size());
  std::vector<int> atoms;
  RE2::Set::ErrorInfo error{};
  if (!parts_->texts.Match(text, &atoms, &error)) {
    if (error.kind == RE2::Set::kNoError) return std::nullopt;
    // The set has no memory left for its automaton: then any text may be there, and each pattern is tried.
    atoms.resize(static_cast<std::size_t>(parts_->texts_count));
    std::iota(atoms.begin(), atoms.end(), 0);
  }
  // Patterns were added in the order of their rules.
  const int first = parts_->filter.FirstMatch(text, atoms);
  if (first < 0) return std::nullopt;
  return parts_->rule_of_filter[static_cast<std::size_t>(first)];
}

bool Matcher::NamesRank(std::size_t rule) const { return parts_->names_rank[rule]; }

bool Matcher::Has(std::size_t rule, std::string_view line) const {
  const auto& patterns = parts_->of_rules[rule];
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) {
    return RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), *pattern);
  });
}

LineFields Matcher::FieldsOf(std::size_t rule, std::string_view line) const {
  LineFields fields;
  for (const auto& pattern : parts_->of_rules[rule])
    if (fields.empty()) fields = NamedGroups(*pattern, re2::StringPiece(line.data(), line.size()));
  return fields;
}

}  // namespace ncclwatch::analyzer
