#include "core/reader/beside/machine.h"

#include <dirent.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/reader/beside/folders.h"
#include "core/reader/lines.h"

namespace ncclwatch::reader {
namespace {

constexpr std::string_view kMachineMagic = "ncclwatch.machine/1";
constexpr std::string_view kPrefix = "machine.", kSuffix = ".txt";
constexpr std::size_t kMostMachineBytes = 1 << 20;
constexpr std::size_t kMostFigures = 20000, kMostUnseen = 32, kMostFiles = 4096;

// "event since NS seen NS gpu PLACE".
MachineEvent EventOf(std::string_view line) {
  MachineEvent event;
  for (std::string_view name = Word(&line); !name.empty(); name = Word(&line)) {
    const std::string_view value = Word(&line);
    if (name == "since") ReadNumber(value, &event.since_ns);
    if (name == "seen") ReadNumber(value, &event.seen_ns);
    if (name == "gpu") event.gpu = LineText(value);
  }
  return event;
}

void ReadHead(std::string_view line, MachineSample* look) {
  for (std::string_view name = Word(&line); !name.empty(); name = Word(&line)) {
    const std::string_view value = Word(&line);
    if (name == "first") ReadNumber(value, &look->first_ns);
    if (name == "last") ReadNumber(value, &look->last_ns);
    if (name == "host") look->host = LineText(value);
  }
}

}  // namespace

std::string MachineFile(std::string_view host) {
  std::string name;
  for (const char letter : host.substr(0, 64)) name += letter == '/' || letter == '\0' ? '_' : letter;
  return std::string(kPrefix) + name + std::string(kSuffix);
}

std::optional<MachineSample> ParseMachine(std::string_view text) {
  Lines lines(text.substr(0, kMostMachineBytes));
  std::string_view line;
  if (!lines.Next(&line) || line != kMachineMagic) return std::nullopt;
  MachineSample look;
  bool open = false;  // the newest event takes its words
  while (lines.Next(&line)) {
    const std::string_view keyword = Word(&line);
    if (keyword == "looked") ReadHead(line, &look);
    if (keyword == "unseen" && look.unseen.size() < kMostUnseen) look.unseen.push_back(LineText(line));
    if (keyword == "event") {
      open = look.events.size() < kMostMachineEvents;
      if (open) look.events.push_back(EventOf(line));
    }
    if (keyword == "words" && open) look.events.back().text = LineText(line);
    if (keyword == "counter" && look.counters.size() < kMostFigures) {
      MachineCounter counter;
      if (ReadNumber(Word(&line), &counter.value)) {
        counter.name = LineText(line);
        look.counters.push_back(std::move(counter));
      }
    }
    if (keyword == "state" && look.states.size() < kMostFigures) look.states.push_back({LineText(line), ""});
    if (keyword == "is" && !look.states.empty()) look.states.back().value = LineText(line);
  }
  std::erase_if(look.events, [](const MachineEvent& event) { return event.text.empty(); });
  if (look.host.empty()) return std::nullopt;
  return look;
}

std::string Format(const MachineSample& look, bool with_figures) {
  std::string text = std::string(kMachineMagic) + "\n";
  text += "looked first " + std::to_string(look.first_ns) + " last " + std::to_string(look.last_ns) + " host " +
          look.host + "\n";
  for (const std::string& what : look.unseen) text += "unseen " + what + "\n";
  const std::size_t skipped = look.events.size() - std::min(look.events.size(), kMostMachineEvents);
  for (std::size_t i = skipped; i < look.events.size(); ++i) {
    const MachineEvent& event = look.events[i];
    text += "event since " + std::to_string(event.since_ns) + " seen " + std::to_string(event.seen_ns);
    if (!event.gpu.empty()) text += " gpu " + event.gpu;
    text += "\nwords " + event.text + "\n";
  }
  if (!with_figures) return text;
  for (const MachineCounter& counter : look.counters)
    text += "counter " + std::to_string(counter.value) + " " + counter.name + "\n";
  for (const MachineState& state : look.states) text += "state " + state.name + "\nis " + state.value + "\n";
  return text;
}

std::optional<MachineSample> ReadMachine(const descriptors::Directory& directory, const std::string& file) {
  return ParseMachine(Beginning(directory, file, kMostMachineBytes));
}

std::vector<MachineSample> ReadMachines(const descriptors::Directory& directory) {
  std::vector<std::string> names;
  DIR* const open = directory ? directory.List() : nullptr;
  if (!open) return {};
  while (const dirent* entry = readdir(open)) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix) && names.size() < kMostFiles) names.emplace_back(name);
  }
  closedir(open);
  std::sort(names.begin(), names.end());
  std::vector<MachineSample> all;
  for (const std::string& name : names)
    if (auto look = ReadMachine(directory, name)) all.push_back(std::move(*look));
  return all;
}

std::vector<MachineSample> ReadMachines(const std::vector<BoxImage>& boxes) {
  std::vector<MachineSample> all;
  for (const std::string& path : FoldersOf(boxes)) {
    std::vector<MachineSample> here = ReadMachines(descriptors::Directory::Named(path));
    std::move(here.begin(), here.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace ncclwatch::reader
