#include "core/model/ignore.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/model/text.h"
#include "core/text/pattern.h"

namespace ncclwatch::diagnosis {
namespace {

struct IgnoreField {
  std::string_view name;
  std::string IgnoreLine::*pattern;
};
constexpr std::array<IgnoreField, 4> kIgnoreFields = {{{"call", &IgnoreLine::call},
                                                       {"at", &IgnoreLine::at},
                                                       {"communicator", &IgnoreLine::communicator},
                                                       {"host", &IgnoreLine::host}}};

// The part before the next blank; takes it from the text.
std::string_view TakeWord(std::string_view* text) {
  constexpr std::string_view kBlanks = " \t\r";
  text->remove_prefix(std::min(text->find_first_not_of(kBlanks), text->size()));
  const std::string_view word = text->substr(0, text->find_first_of(kBlanks));
  text->remove_prefix(word.size());
  return word;
}

// Empty if the line is right.
std::string ReadIgnoreLine(std::string_view text, IgnoreLine* line) {
  const std::string_view kind = TakeWord(&text);
  const auto named = Named<Kind>(kind);
  if (!named) return fmt::format("there is no kind '{}'", kind);
  line->kind = *named;
  line->text = kind;
  for (std::string_view word = TakeWord(&text); !word.empty(); word = TakeWord(&text)) {
    const std::string_view name = word.substr(0, word.find('='));
    const auto* const field = std::find_if(kIgnoreFields.begin(), kIgnoreFields.end(),
                                           [&](const IgnoreField& one) { return one.name == name; });
    if (field == kIgnoreFields.end() || name.size() + 1 >= word.size())
      return fmt::format("'{}' is none of call=, at=, communicator=, host= with a pattern", word);
    line->*field->pattern = word.substr(name.size() + 1);
    line->text.append(" ").append(word);
  }
  return {};
}

bool Fits(const std::string& pattern, std::initializer_list<std::string_view> texts) {
  return pattern.empty() || std::any_of(texts.begin(), texts.end(), [&](std::string_view text) {
           return !text.empty() && MatchesPattern(pattern, text);
         });
}

std::string FullNameOf(const CallSummary& call) { return (call.mpi ? "MPI_" : "nccl") + *call.op; }

std::string FileOf(const SourcePlace& source) { return source.file.substr(source.file.rfind('/') + 1); }

bool FitsCall(const IgnoreLine& line, const CallSummary& call) {
  static const SourcePlace kNoSource;
  const SourcePlace& source = call.source ? *call.source : kNoSource;
  const std::string file = FileOf(source), file_and_line = fmt::format("{}:{}", file, source.line);
  return Fits(line.call, {FullNameOf(call), *call.op}) &&
         Fits(line.at, {source.function, file, file_and_line, call.site_text.value_or("")});
}

bool FitsRest(const IgnoreLine& line, const Finding& finding) {
  const std::string label = finding.communicator ? finding.communicator->label : "",
                    id = finding.communicator ? Hex16(finding.communicator->id) : "";
  return line.kind == finding.kind && Fits(line.communicator, {label, id}) &&
         (line.host.empty() || (!finding.culprit_details.empty() &&
                                std::all_of(finding.culprit_details.begin(), finding.culprit_details.end(),
                                            [&](const Culprit& one) { return Fits(line.host, {one.host}); })));
}

// The line that leaves the finding out, or for several calls the first one's. Null: not all calls have one.
const IgnoreLine* Matching(const std::vector<IgnoreLine>& lines, const Finding& finding) {
  const auto first = [&](const auto& fits) -> const IgnoreLine* {
    for (const IgnoreLine& line : lines)
      if (FitsRest(line, finding) && fits(line)) return &line;
    return nullptr;
  };
  const IgnoreLine* found = nullptr;
  for (const CallSummary& call : finding.calls) {
    if (!call.op) continue;
    const IgnoreLine* const line = first([&](const IgnoreLine& one) { return FitsCall(one, call); });
    if (!line) return nullptr;
    if (!found) found = line;
  }
  return found ? found : first([](const IgnoreLine& one) { return one.call.empty() && one.at.empty(); });
}

void Count(const std::string& line, std::vector<IgnoredFindings>* ignored) {
  const auto known =
      std::find_if(ignored->begin(), ignored->end(), [&](const IgnoredFindings& one) { return one.line == line; });
  if (known == ignored->end()) return ignored->push_back({line, 1});
  ++known->findings;
}

bool IsExplanation(const std::vector<Finding>& findings, std::size_t index) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& one) { return one.caused_by == index; });
}

void Erase(std::size_t index, std::vector<Finding>* findings) {
  findings->erase(findings->begin() + static_cast<std::ptrdiff_t>(index));
  for (Finding& finding : *findings)
    if (finding.caused_by && *finding.caused_by > index) --*finding.caused_by;
}

// A word of a line: neither blanks nor the beginning of a comment.
std::string AsPattern(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == ' ' || c == '\t' || c == '#'; }, '*');
  return text;
}

// Functions keep their names when lines move. "<module>" of Python is none.
std::string PlaceOf(const CallSummary& call) {
  if (!call.source || call.source->file.empty()) return call.site_text.value_or("");
  const std::string& function = call.source->function;
  return function.empty() || function.front() == '<' ? fmt::format("{}:{}", FileOf(*call.source), call.source->line)
                                                     : function;
}

}  // namespace

IgnoreList ParseIgnoreList(std::string_view text) {
  IgnoreList list;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view whole = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(whole.size() + 1, text.size()));
    std::string_view words = whole.substr(0, whole.find('#'));
    if (std::string_view rest = words; TakeWord(&rest).empty()) continue;
    IgnoreLine line;
    const std::string wrong = ReadIgnoreLine(words, &line);
    if (wrong.empty())
      list.lines.push_back(std::move(line));
    else
      list.wrong.push_back(fmt::format("line {}: {}", number, wrong));
  }
  return list;
}

void LeaveOut(const std::vector<IgnoreLine>& lines, std::vector<Finding>* findings,
              std::vector<IgnoredFindings>* ignored) {
  // From the end: a consequence that is left out leaves its cause without one.
  for (std::size_t i = lines.empty() ? 0 : findings->size(); i-- > 0;) {
    const IgnoreLine* const line = Matching(lines, (*findings)[i]);
    if (!line || IsExplanation(*findings, i)) continue;
    Count(line->text, ignored);
    Erase(i, findings);
  }
}

std::string IgnoredText(const std::vector<IgnoredFindings>& ignored) {
  int findings = 0;
  for (const IgnoredFindings& one : ignored) findings += one.findings;
  if (findings == 0) return {};
  return findings == 1 ? "1 known finding is left out" : fmt::format("{} known findings are left out", findings);
}

std::vector<std::string> IgnoreLinesFor(const Finding& finding) {
  std::vector<std::string> lines;
  if (finding.kind < Kind::kMissingFinalize) return lines;
  const std::string kind(Name(finding.kind));
  for (const CallSummary& call : finding.calls) {
    if (!call.op) continue;
    const std::string place = PlaceOf(call);
    std::string line = kind + " call=" + FullNameOf(call) + (place.empty() ? "" : " at=" + AsPattern(place));
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
  }
  const std::vector<Culprit>& who = finding.culprit_details;
  if (!lines.empty() || who.empty() || who.front().host.empty()) return lines;
  if (std::all_of(who.begin(), who.end(), [&](const Culprit& one) { return one.host == who.front().host; }))
    lines.push_back(kind + " host=" + AsPattern(who.front().host));
  return lines;
}

}  // namespace ncclwatch::diagnosis
