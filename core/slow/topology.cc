#include "core/slow/topology.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kMostNames = 100'000;
constexpr int kMostLevels = 16;  // of switches above one another

// Up to the first comma outside brackets; takes both off the list.
std::string_view TakeName(std::string_view* list) {
  int depth = 0;
  std::size_t end = 0;
  for (; end < list->size() && (depth > 0 || (*list)[end] != ','); ++end) {
    if ((*list)[end] == '[') ++depth;
    if ((*list)[end] == ']') --depth;
  }
  const std::string_view name = list->substr(0, end);
  list->remove_prefix(std::min(list->size(), end + 1));
  return name;
}

std::optional<unsigned> NumberOf(std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string Padded(unsigned number, std::size_t width) {
  std::string text = std::to_string(number);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

// "00-02,07" as words; false: it is not that.
bool Spell(std::string_view ranges, std::vector<std::string>* words) {
  while (!ranges.empty()) {
    const std::string_view range = TakeName(&ranges);
    const std::size_t dash = range.find('-');
    const std::string_view from = range.substr(0, dash), to = dash == range.npos ? from : range.substr(dash + 1);
    const std::optional<unsigned> first = NumberOf(from), last = NumberOf(to);
    if (!first || !last || *last < *first || *last - *first >= kMostNames) return false;
    for (unsigned number = *first; number <= *last; ++number) words->push_back(Padded(number, from.size()));
    if (words->size() > kMostNames) return false;
  }
  return !words->empty();
}

// Of one name, which may have brackets in several places.
bool Expand(std::string_view name, std::vector<std::string>* names) {
  std::vector<std::string> made = {""};
  while (!name.empty()) {
    const std::size_t open = std::min(name.find('['), name.size());
    for (std::string& one : made) one += name.substr(0, open);
    name.remove_prefix(open);
    if (name.empty()) break;
    const std::size_t close = name.find(']');
    std::vector<std::string> words, longer;
    if (close == name.npos || !Spell(name.substr(1, close - 1), &words)) return false;
    if (made.size() * words.size() > kMostNames) return false;
    for (const std::string& one : made)
      for (const std::string& word : words) longer.push_back(one + word);
    made = std::move(longer);
    name.remove_prefix(close + 1);
  }
  names->insert(names->end(), made.begin(), made.end());
  return names->size() <= kMostNames;
}

struct SwitchLine {
  std::string name;
  std::vector<std::string> nodes, switches;
};

bool SameWord(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return (x | 0x20) == (y | 0x20); });
}

std::optional<SwitchLine> LineOf(std::string_view text) {
  SwitchLine line;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r"), text.size()));
    if (text.empty()) break;
    const std::string_view word = text.substr(0, text.find_first_of(" \t\r"));
    text.remove_prefix(word.size());
    const std::size_t equals = word.find('=');
    if (equals == word.npos) return std::nullopt;
    const std::string_view key = word.substr(0, equals), value = word.substr(equals + 1);
    const auto list = HostsOfList(value);
    if (SameWord(key, "SwitchName"))
      line.name = value;
    else if (SameWord(key, "Nodes") && list)
      line.nodes = *list;
    else if (SameWord(key, "Switches") && list)
      line.switches = *list;
    else if (SameWord(key, "Nodes") || SameWord(key, "Switches"))
      return std::nullopt;
  }
  return line;
}

void AddBelow(const std::map<std::string, SwitchLine>& lines, const std::string& name, int levels, Switch* to) {
  const auto line = lines.find(name);
  if (line == lines.end() || levels == 0) return;
  to->hosts.insert(line->second.nodes.begin(), line->second.nodes.end());
  for (const std::string& below : line->second.switches) AddBelow(lines, below, levels - 1, to);
}

}  // namespace

std::optional<std::vector<std::string>> HostsOfList(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty())
    if (const std::string_view name = TakeName(&list); name.empty() || !Expand(name, &names)) return std::nullopt;
  return names;
}

Topology ParseTopology(std::string_view text, std::string* wrong) {
  std::map<std::string, SwitchLine> lines;
  while (!text.empty()) {
    const std::string_view whole = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), whole.size() + 1));
    std::string_view line = whole.substr(0, whole.find('#'));
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.size() < 10 || !SameWord(line.substr(0, 10), "SwitchName")) continue;
    if (const std::optional<SwitchLine> parsed = LineOf(line); parsed && !parsed->name.empty())
      lines[parsed->name] = *parsed;
    else if (wrong->empty())
      *wrong = whole;
  }
  Topology topology;
  for (const auto& [name, line] : lines) {
    Switch one{name, {}};
    AddBelow(lines, name, kMostLevels, &one);
    if (!one.hosts.empty()) topology.push_back(std::move(one));
  }
  // The smaller one first: the nearest.
  std::stable_sort(topology.begin(), topology.end(),
                   [](const Switch& a, const Switch& b) { return a.hosts.size() < b.hosts.size(); });
  return topology;
}

}  // namespace ncclwatch::diagnosis
