#include "watchdog/settings/excluded.h"

#include <algorithm>

#include "core/text/pattern.h"
#include "watchdog/settings/plain_file.h"
#include "watchdog/settings/words.h"

namespace ncclwatch::settings {
namespace {

constexpr std::size_t kMostWords = 4 << 20;  // bytes of a command line
constexpr std::string_view kDeleted = " (deleted)";

std::string_view LastPart(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::vector<std::string_view> Divided(std::string_view words) {
  std::vector<std::string_view> divided;
  while (!words.empty()) {
    divided.push_back(words.substr(0, words.find('\0')));
    words.remove_prefix(std::min(words.size(), divided.back().size() + 1));
  }
  return divided;
}

// `python3 -u -X dev train.py`: train.py. `python3 -m torch.distributed.run`: the module. `-c`: none.
std::string_view ScriptOf(const std::vector<std::string_view>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (!word.starts_with('-') || word == "-") return word;
    if (word.starts_with("--")) {
      if (word == "--check-hash-based-pycs") ++i;
      continue;
    }
    // Letters may stand together: -um module. These four end a word, and take what follows.
    const std::size_t at = word.find_first_of("mcWX");
    if (at == std::string_view::npos) continue;
    const bool apart = at + 1 == word.size();
    if (word[at] == 'c') return {};
    if (word[at] == 'm') return !apart ? word.substr(at + 1) : i + 1 < words.size() ? words[i + 1] : std::string_view();
    if (apart) ++i;
  }
  return {};
}

}  // namespace

std::vector<std::string> NamesOfProgram(std::string_view executable, std::string_view words) {
  std::vector<std::string> names;
  if (executable.ends_with(kDeleted)) executable.remove_suffix(kDeleted.size());
  if (!executable.empty()) names.emplace_back(executable);
  const std::vector<std::string_view> divided = Divided(words);
  if (divided.empty()) return names;
  names.emplace_back(divided[0]);
  const bool python = LastPart(executable).starts_with("python") || LastPart(executable).starts_with("pypy");
  if (const std::string_view script = python ? ScriptOf(divided) : std::string_view(); !script.empty())
    names.emplace_back(script);
  return names;
}

bool IsAmong(std::string_view list, const std::vector<std::string>& names) {
  while (!list.empty()) {
    const std::string_view pattern = TakeElement(&list);
    if (pattern.empty()) continue;
    const bool whole = pattern.find('/') != std::string_view::npos;
    for (const std::string& name : names)
      if (MatchesPattern(pattern, whole ? std::string_view(name) : LastPart(name))) return true;
  }
  return false;
}

bool IsExcluded(std::string_view list) {
  if (list.empty()) return false;
  return IsAmong(list,
                 NamesOfProgram(ReadLink("/proc/self/exe"), ReadPlain("/proc/self/cmdline", kMostWords, true).text));
}

}  // namespace ncclwatch::settings
