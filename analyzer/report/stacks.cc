#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "analyzer/report/sections.h"
#include "core/reader/file.h"
#include "core/reader/stacks.h"
#include "core/text/printable.h"
#include "watchdog/descriptors/directory.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostOfFile = 128 << 10, kMostFrames = 200, kMostFrame = 400, kMostProcesses = 4096;

std::string ReadBeginning(const descriptors::Directory& directory, const std::string& name) {
  const reader::File file(directory, name);
  if (!file.reason().empty()) return {};
  std::string text(std::min<std::uint64_t>(file.bytes(), kMostOfFile), '\0');
  text.resize(file.ReadAt(0, text.data(), text.size()));
  return text;
}

// Of the first thread of the file, the one that matters: innermost first (stacks::FileText).
Json FramesOf(const std::string& text) {
  Json frames = Json::array();
  bool inside = false;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const std::string& line : lines) {
    if (!inside) {
      inside = line.starts_with("thread ");
    } else if (line.empty() || frames.size() == kMostFrames) {
      break;
    } else if (line.starts_with("  #")) {
      const std::size_t blank = line.find(' ', 3);
      if (blank != std::string::npos) frames.push_back(Printable(line.substr(blank + 1, kMostFrame)));
    }
  }
  return frames;
}

Json Lines(const std::vector<std::string>& lines) {
  Json list = Json::array();
  for (const std::string& line : lines) list.push_back(Printable(line));
  return list;
}

// A process that a signal has ended tells of its own stack.
Json CrashOf(const reader::BoxImage& box) {
  Json frames = Json::array();
  if (box.words.signals.empty()) return frames;
  for (const reader::Frame& frame : box.words.signals.back().frames)
    if (frames.size() < kMostFrames) frames.push_back(Printable(reader::FrameText(frame)));
  return frames;
}

}  // namespace

Json StacksSection(const reader::RunImage& run) {
  Json list = Json::array();
  const auto directory =
      run.directory.empty() ? descriptors::Directory() : descriptors::Directory::Named(run.directory);
  for (const reader::BoxImage& box : run.boxes) {
    if (list.size() == kMostProcesses) break;
    const auto head = directory ? reader::ReadProcessStacks(directory, box.pid) : std::nullopt;
    const bool is_its = head && head->start_time == box.start_time;
    Json frames = is_its ? FramesOf(ReadBeginning(directory, fmt::format("{}/{}.txt", reader::kStacksFolder, box.pid)))
                         : CrashOf(box);
    if (!is_its && frames.empty()) continue;
    list.push_back({{"rank", box.rank},
                    {"pid", box.pid},
                    {"crash", !is_its},
                    {"state", is_its ? Lines(head->state) : Json::array()},
                    {"where", is_its ? Lines(head->where) : Json::array()},
                    {"frames", std::move(frames)}});
  }
  return list;
}

}  // namespace ncclwatch::analyzer
