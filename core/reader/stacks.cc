#include "core/reader/stacks.h"

#include <algorithm>

#include "core/reader/lines.h"

namespace ncclwatch::reader {
namespace {

constexpr std::string_view kProcessMagic = "ncclwatch.stacks/1";
constexpr std::string_view kVerdictMagic = "ncclwatch.verdict_stacks/1";
constexpr std::size_t kMostHead = 64 << 10;  // bytes; a head has some ten lines
constexpr std::size_t kMostVerdict = 4 << 20;
constexpr std::size_t kMostProcesses = 4096;

void Add(std::string_view keyword, std::string_view rest, ProcessStacks* process) {
  const bool state = keyword == "state";
  if (!state && keyword != "where") return;
  std::vector<std::string>& lines = state ? process->state : process->where;
  if (lines.size() == (state ? kMostState : kMostWhere)) return;
  if (std::string text = LineText(rest); !text.empty()) lines.push_back(std::move(text));
}

}  // namespace

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
