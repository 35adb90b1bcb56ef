#include "watchdog/reader/stacks.h"

#include <algorithm>

#include "watchdog/reader/file.h"
#include "watchdog/reader/lines.h"
#include "watchdog/reader/stack_lines.h"
#include "watchdog/text/printable.h"

namespace ncclwatch::reader {
namespace {

constexpr std::string_view kProcessMagic = "ncclwatch.stacks/1";
constexpr std::string_view kVerdictMagic = "ncclwatch.verdict_stacks/1";
constexpr std::size_t kMostHead = 64 << 10;  // bytes; a head has some ten lines
constexpr std::size_t kMostVerdict = 4 << 20;
constexpr std::size_t kMostProcesses = 4096;
constexpr std::size_t kMostText = 400;  // bytes of one frame or state

void Add(std::string_view keyword, std::string_view rest, ProcessStacks* process) {
  const bool state = keyword == "state";
  if (!state && keyword != "where") return;
  std::vector<std::string>& lines = state ? process->state : process->where;
  if (lines.size() == (state ? kMostState : kMostWhere)) return;
  if (std::string text = LineText(rest); !text.empty()) lines.push_back(std::move(text));
}

}  // namespace

std::string LineText(std::string_view rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  std::string text = Printable(rest.substr(0, kMostText));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::optional<ProcessStacks> ParseProcessLine(std::string_view line) {
  ProcessStacks process;
  bool whole = true;
  for (std::string_view name = Word(&line); !name.empty(); name = Word(&line)) {
    const std::string_view value = Word(&line);
    if (name == "pid") whole &= ReadNumber(value, &process.pid);
    if (name == "start") whole &= ReadNumber(value, &process.start_time);
    if (name == "at_ns") whole &= ReadNumber(value, &process.at_ns);
    if (name == "rank" && !ReadNumber(value, &process.rank)) process.rank = -1;
    if (name == "host") process.host = LineText(value);
  }
  if (process.host.empty()) process.host = kNoHost;
  if (!whole || process.pid == 0 || process.start_time == 0) return std::nullopt;
  return process;
}

std::string ProcessLine(const ProcessStacks& process) {
  return "process pid " + std::to_string(process.pid) + " start " + std::to_string(process.start_time) + " rank " +
         std::to_string(process.rank) + " host " + process.host + " at_ns " + std::to_string(process.at_ns) + "\n";
}

std::string Beginning(const descriptors::Directory& directory, const std::string& name, std::size_t most) {
  const File file(directory, name);
  if (!file.reason().empty()) return {};
  std::string text(std::min<std::uint64_t>(file.bytes(), most), '\0');
  text.resize(file.ReadAt(0, text.data(), text.size()));
  return text;
}

std::optional<ProcessStacks> ParseProcessStacks(std::string_view text) {
  Lines lines(text.substr(0, kMostHead));
  std::string_view line;
  if (!lines.Next(&line) || line != kProcessMagic) return std::nullopt;
  std::optional<ProcessStacks> process;
  while (lines.Next(&line) && !line.empty()) {  // an empty line ends the head
    const std::string_view keyword = Word(&line);
    if (keyword == "process" && !process) {
      if (!(process = ParseProcessLine(line))) return std::nullopt;
    } else if (process) {
      Add(keyword, line, &*process);
    }
  }
  return process;
}

std::optional<VerdictStacks> ParseVerdictStacks(std::string_view text) {
  Lines lines(text.substr(0, kMostVerdict));
  std::string_view line;
  if (!lines.Next(&line) || line != kVerdictMagic) return std::nullopt;
  VerdictStacks stacks;
  bool open = false;  // the newest process takes what follows
  while (lines.Next(&line)) {
    const std::string_view keyword = Word(&line);
    if (keyword == "verdict_at_ns") ReadNumber(Word(&line), &stacks.verdict_at_ns);
    if (keyword == "process") {
      std::optional<ProcessStacks> process = ParseProcessLine(line);
      open = process && stacks.processes.size() < kMostProcesses;
      if (open) stacks.processes.push_back(std::move(*process));
    } else if (open) {
      Add(keyword, line, &stacks.processes.back());
    }
  }
  if (stacks.verdict_at_ns == 0) return std::nullopt;
  return stacks;
}

std::string Format(const VerdictStacks& stacks) {
  std::string text = std::string(kVerdictMagic) + "\nverdict_at_ns " + std::to_string(stacks.verdict_at_ns) + "\n";
  for (const ProcessStacks& process : stacks.processes) {
    text += ProcessLine(process);
    for (const std::string& sentence : process.state) text += "state " + sentence + "\n";
    for (const std::string& frame : process.where) text += "where " + frame + "\n";
  }
  return text;
}

std::optional<ProcessStacks> ReadProcessStacks(const descriptors::Directory& directory, std::uint32_t pid) {
  const std::string name = std::string(kStacksFolder) + "/" + std::to_string(pid) + ".txt";
  return ParseProcessStacks(Beginning(directory, name, kMostHead));
}

std::optional<VerdictStacks> ReadVerdictStacks(const descriptors::Directory& directory) {
  return ParseVerdictStacks(Beginning(directory, kVerdictStacksFile, kMostVerdict));
}

}  // namespace ncclwatch::reader
