#include "analyzer/triage/matcher.h"

#include <fmt/format.h>
#include <re2/filtered_re2.h>
#include <re2/re2.h>
#include <re2/set.h>

#include <numeric>
#include <set>

namespace ncclwatch::analyzer {
namespace {

constexpr int kLeastText = 6;  // shorter ones stand in every other line

Fields NamedGroups(const RE2& pattern, const re2::StringPiece& text) {
  std::vector<re2::StringPiece> groups(static_cast<std::size_t>(pattern.NumberOfCapturingGroups()) + 1);
  Fields fields;
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

struct Matcher::Parts {
  std::vector<Rule> rules;
  std::vector<std::vector<std::unique_ptr<RE2>>> of_rules;  // their patterns
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
    for (const std::string& pattern : parts->rules[i].patterns) {
      patterns.push_back(std::make_unique<RE2>(pattern, RE2::Quiet));
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

std::vector<std::size_t> Matcher::RulesOf(std::string_view line) const {
  const re2::StringPiece text(line.data(), line.size());
  std::vector<int> atoms, ids;
  RE2::Set::ErrorInfo error{};
  if (!parts_->texts.Match(text, &atoms, &error)) {
    if (error.kind == RE2::Set::kNoError) return {};
    // The set has no memory left for its automaton: then any text may be there, and each pattern is tried.
    atoms.resize(static_cast<std::size_t>(parts_->texts_count));
    std::iota(atoms.begin(), atoms.end(), 0);
  }
  parts_->filter.AllMatches(text, atoms, &ids);
  std::set<std::size_t> rules;
  for (const int id : ids) rules.insert(parts_->rule_of_filter[static_cast<std::size_t>(id)]);
  return {rules.begin(), rules.end()};
}

Fields Matcher::FieldsOf(std::size_t rule, std::string_view line) const {
  Fields fields;
  for (const auto& pattern : parts_->of_rules[rule])
    if (fields.empty()) fields = NamedGroups(*pattern, re2::StringPiece(line.data(), line.size()));
  return fields;
}

}  // namespace ncclwatch::analyzer
