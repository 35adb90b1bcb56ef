#include "analyzer/known_bad/known_bad.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "analyzer/files/input_file.h"
#include "analyzer/files/toml.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::uint64_t kMostBytes = 16 << 20;
constexpr std::array<std::string_view, 9> kKeys = {"component", "from", "to",     "symptom", "check",
                                                   "text",      "seen", "report", "summary"};

std::vector<std::string> TextsOf(const toml::node_view<const toml::node>& node) {
  std::vector<std::string> texts;
  if (const toml::array* const array = node.as_array())
    for (const toml::node& element : *array) texts.push_back(element.value_or(std::string()));
  else if (const auto one = node.value<std::string>())
    texts.push_back(*one);
  return texts;
}

// Empty: the entry is whole.
std::string WrongWith(const KnownBad& entry, const toml::table& table) {
  for (const auto& [key, value] : table)
    if (std::find(kKeys.begin(), kKeys.end(), key.str()) == kKeys.end())
      return fmt::format("`{}` is no key of an entry", std::string_view(key.str()));
  for (const std::string* const text : {&entry.component, &entry.from, &entry.to, &entry.report, &entry.summary})
    if (text->empty()) return "component, from, to, report and summary are needed, as texts";
  if (entry.symptoms.empty() && entry.checks.empty()) return "`symptom` or `check` is missing";
  for (const std::string* const text : {&entry.text, &entry.seen})
    if (const RE2 pattern(*text, RE2::Quiet); !pattern.ok()) return fmt::format("`{}`: {}", *text, pattern.error());
  return "";
}

KnownBad ReadEntry(std::string_view id, const toml::table& table) {
  const auto text = [&](const char* key) { return table[key].value_or(std::string()); };
  KnownBad entry;
  entry.id = id;
  entry.component = text("component");
  entry.from = text("from"), entry.to = text("to");
  entry.symptoms = TextsOf(table["symptom"]), entry.checks = TextsOf(table["check"]);
  entry.text = text("text"), entry.seen = text("seen");
  entry.report = text("report"), entry.summary = text("summary");
  return entry;
}

absl::StatusOr<std::vector<KnownBad>> ParseKnownBad(std::string_view text, const std::string& source) {
  const auto tables = ParseToml(text, source);
  if (!tables.ok()) return tables.status();
  std::vector<KnownBad> entries;
  for (const auto& [key, value] : *tables) {
    const toml::table* const table = value.as_table();
    const std::string id(key.str());
    if (!table) return absl::InvalidArgumentError(fmt::format("{}: `{}` stands outside of an entry", source, id));
    entries.push_back(ReadEntry(id, *table));
    if (const std::string wrong = WrongWith(entries.back(), *table); !wrong.empty())
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: entry {}: {}", source, table->source().begin.line, id, wrong));
  }
  return entries;
}

// "2.19.3" of "2.19.3+cuda12.1".
std::vector<int> NumbersOf(std::string_view version) {
  std::vector<int> numbers;
  const std::string_view digits = version.substr(0, version.find_first_not_of("0123456789."));
  for (const absl::string_view part : absl::StrSplit(absl::string_view(digits.data(), digits.size()), '.')) {
    int number = 0;
    if (!absl::SimpleAtoi(part, &number)) break;
    numbers.push_back(number);
  }
  return numbers;
}

bool IsBetween(const std::string& version, const KnownBad& entry) {
  const std::vector<int> numbers = NumbersOf(version);
  return !numbers.empty() && numbers >= NumbersOf(entry.from) && numbers <= NumbersOf(entry.to);
}

}  // namespace

absl::StatusOr<std::vector<KnownBad>> ReadKnownBad(const std::vector<std::string>& files) {
  std::vector<KnownBad> all;
  for (const std::string& path : files) {
    const auto text = ReadFile(path, kMostBytes);
    if (!text.ok()) return text.status();
    auto more = ParseKnownBad(*text, path);
    if (!more.ok()) return more.status();
    all.insert(all.end(), more->begin(), more->end());
  }
  auto own = ParseKnownBad(OwnKnownBad(), "versions");
  if (!own.ok()) return own.status();
  all.insert(all.end(), own->begin(), own->end());
  return all;
}

void AddVersionsIn(std::string_view text, Versions* versions) {
  struct Pattern {
    const char* component;
    RE2 pattern;
  };
  static const Pattern patterns[] = {
      {"nccl", RE2(R"(\bNCCL version:? ?(\d+\.\d+(?:\.\d+)*))")},
      {"torch", RE2(R"(\b(?:[Pp]y)?[Tt]orch(?: version)?(?:==|[: =]) ?v?(\d+\.\d+\.\d+))")},
      {"driver", RE2(R"(\b[Dd]river [Vv]ersion: *(\d{3}\.\d+(?:\.\d+)?))")},
      {"driver", RE2(R"(NVRM: loading NVIDIA UNIX [^\n]*?\b(\d{3}\.\d+(?:\.\d+)?))")},
      {"cuda", RE2(R"(\bCUDA Version: *(\d+\.\d+))")},
  };
  for (const Pattern& each : patterns) {
    re2::StringPiece rest(text.data(), text.size());
    for (std::string version; RE2::FindAndConsume(&rest, each.pattern, &version);)
      versions->emplace(each.component, version);
  }
}

bool HasVersion(const KnownBad& entry, const Versions& versions) {
  return std::any_of(versions.begin(), versions.end(), [&](const auto& version) {
    return version.first == entry.component && IsBetween(version.second, entry);
  });
}

bool Matches(const std::string& pattern, std::string_view text) {
  return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), RE2(pattern));
}

nlohmann::ordered_json KnownBadJson(const std::vector<KnownBad>& entries) {
  auto list = nlohmann::ordered_json::array();
  for (const KnownBad& entry : entries)
    list.push_back({{"id", entry.id},
                    {"component", entry.component},
                    {"from", entry.from},
                    {"to", entry.to},
                    {"report", entry.report},
                    {"summary", entry.summary}});
  return list;
}

}  // namespace ncclwatch::analyzer
