#include "analyzer/triage/matcher.h"

#include <fmt/format.h>
#include <hs/hs.h>
#include <re2/filtered_re2.h>
#include <re2/re2.h>

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

absl::Status CompileTexts(const std::vector<std::string>& atoms, hs_database_t** into) {
  std::vector<const char*> texts;
  std::vector<unsigned> flags(atoms.size(), HS_FLAG_CASELESS), ids;
  std::vector<std::size_t> lengths;
  for (const std::string& atom : atoms) {
    ids.push_back(static_cast<unsigned>(texts.size()));
    texts.push_back(atom.c_str());
    lengths.push_back(atom.size());
  }
  hs_compile_error_t* error = nullptr;
  if (hs_compile_lit_multi(texts.data(), flags.data(), ids.data(), lengths.data(), static_cast<unsigned>(texts.size()),
                           HS_MODE_BLOCK, nullptr, into, &error) == HS_SUCCESS)
    return absl::OkStatus();
  const std::string why = error ? error->message : "unknown";
  hs_free_compile_error(error);
  return absl::InternalError("the rules' texts cannot be searched: " + why);
}

}  // namespace

struct Matcher::Parts {
  ~Parts() { hs_free_database(texts); }

  std::vector<Rule> rules;
  std::vector<std::vector<std::unique_ptr<RE2>>> of_rules;  // their patterns
  re2::FilteredRE2 filter{kLeastText};                      // those that any line may match
  std::vector<std::size_t> rule_of_filter;                  // by its ids
  int atoms = 0;                                            // the texts that those need
  hs_database_t* texts = nullptr;                           // these and kTracebackBegin, in any case of letters
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
  parts->atoms = static_cast<int>(atoms.size());
  atoms.emplace_back(kTracebackBegin);
  const absl::Status status = CompileTexts(atoms, &parts->texts);
  if (!status.ok()) return status;
  return Matcher(std::move(parts));
}

Matcher::Scratch::Scratch(const Matcher& matcher) {
  hs_scratch_t* made = nullptr;
  if (hs_alloc_scratch(matcher.parts_->texts, &made) == HS_SUCCESS) memory_ = made;
}

Matcher::Scratch::~Scratch() { hs_free_scratch(static_cast<hs_scratch_t*>(memory_)); }

void Matcher::Search(std::string_view block, Scratch* scratch, std::vector<Hit>* hits) const {
  hits->clear();
  const auto found = [](unsigned id, unsigned long long, unsigned long long end, unsigned, void* into) {
    static_cast<std::vector<Hit>*>(into)->push_back({static_cast<std::size_t>(end), static_cast<int>(id)});
    return 0;
  };
  hs_scan(parts_->texts, block.data(), static_cast<unsigned>(block.size()), 0,
          static_cast<hs_scratch_t*>(scratch->memory_), found, hits);
}

std::vector<std::size_t> Matcher::RulesOf(std::string_view line, const std::vector<int>& atoms) const {
  std::vector<int> of_rules, ids;
  for (const int atom : atoms)
    if (atom < parts_->atoms) of_rules.push_back(atom);
  parts_->filter.AllMatches(re2::StringPiece(line.data(), line.size()), of_rules, &ids);
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
