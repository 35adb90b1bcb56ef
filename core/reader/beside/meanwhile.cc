#include "core/reader/beside/meanwhile.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "core/reader/beside/folders.h"
#include "core/reader/lines.h"

namespace ncclwatch::reader {
namespace {

constexpr std::string_view kMeanwhileMagic = "ncclwatch.meanwhile/1";
constexpr std::size_t kMostMeanwhileBytes = 4 << 20;
constexpr std::size_t kMostSampled = 256;
constexpr std::size_t kMostSamples = 64;  // of one process, of each kind

constexpr std::array<std::string_view, 12> kNames = {"other", "input",   "checkpoint", "files",  "gpu",     "running",
                                                     "lock",  "network", "paging",     "asleep", "stopped", "call"};

Doing DoingFrom(std::string_view name) {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  return found == kNames.end() ? Doing::kOther : static_cast<Doing>(found - kNames.begin());
}

// "waited NS run NS queued NS throttled NS faults N written BYTES".
void ReadTimes(std::string_view line, Meanwhile* process) {
  for (std::string_view name = Word(&line); !name.empty(); name = Word(&line)) {
    const std::string_view value = Word(&line);
    if (name == "waited") ReadNumber(value, &process->waited_ns);
    if (name == "run") ReadNumber(value, &process->run_ns);
    if (name == "queued") ReadNumber(value, &process->queued_ns);
    if (name == "throttled") ReadNumber(value, &process->throttled_ns);
    if (name == "faults") ReadNumber(value, &process->major_faults);
    if (name == "written") ReadNumber(value, &process->written);
  }
}

// "sample wait N doing NAME", "random doing NAME".
MeanwhileSample Sample(std::string_view line) {
  MeanwhileSample sample;
  for (std::string_view name = Word(&line); !name.empty(); name = Word(&line)) {
    const std::string_view value = Word(&line);
    if (name == "wait") ReadNumber(value, &sample.wait);
    if (name == "doing") sample.doing = DoingFrom(value);
  }
  return sample;
}

std::string Text(const MeanwhileSample& sample) {
  std::string text = " doing " + std::string(Name(sample.doing)) + "\n";
  if (!sample.words.empty()) text += "words " + sample.words + "\n";
  for (const std::string& frame : sample.where) text += "where " + frame + "\n";
  return text;
}

}  // namespace

std::string_view Name(Doing doing) { return kNames[static_cast<std::size_t>(doing)]; }

std::optional<std::vector<Meanwhile>> ParseMeanwhile(std::string_view text) {
  Lines lines(text.substr(0, kMostMeanwhileBytes));
  std::string_view line;
  if (!lines.Next(&line) || line != kMeanwhileMagic) return std::nullopt;
  std::vector<Meanwhile> all;
  std::vector<MeanwhileSample>* samples = nullptr;  // the newest process's: they take what follows
  while (lines.Next(&line)) {
    const std::string_view keyword = Word(&line);
    if (keyword == "process") {
      std::optional<ProcessStacks> who = ParseProcessLine(line);
      samples = who && all.size() < kMostSampled ? &all.emplace_back().samples : nullptr;
      if (samples) all.back().who = std::move(*who);
    }
    if (!samples) continue;
    if (keyword == "times") ReadTimes(line, &all.back());
    if (keyword == "sample" || keyword == "random") {
      samples = keyword == "sample" ? &all.back().samples : &all.back().at_random;
      if (samples->size() < kMostSamples) samples->push_back(Sample(line));
    }
    if (samples->empty()) continue;
    if (keyword == "words") samples->back().words = LineText(line);
    if (keyword == "where" && samples->back().where.size() < kMostWhere)
      samples->back().where.push_back(LineText(line));
  }
  return all;
}

std::string Format(const std::vector<Meanwhile>& all) {
  std::string text = std::string(kMeanwhileMagic) + "\n";
  for (const Meanwhile& process : all) {
    text += ProcessLine(process.who);
    text += "times waited " + std::to_string(process.waited_ns) + " run " + std::to_string(process.run_ns) +
            " queued " + std::to_string(process.queued_ns) + " throttled " + std::to_string(process.throttled_ns) +
            " faults " + std::to_string(process.major_faults) + " written " + std::to_string(process.written) + "\n";
    for (const MeanwhileSample& sample : process.samples)
      text += "sample wait " + std::to_string(sample.wait) + Text(sample);
    for (const MeanwhileSample& sample : process.at_random) text += "random" + Text(sample);
  }
  return text;
}

std::vector<Meanwhile> ReadMeanwhile(const descriptors::Directory& directory) {
  return ParseMeanwhile(Beginning(directory, kMeanwhileFile, kMostMeanwhileBytes)).value_or(std::vector<Meanwhile>());
}

std::vector<Meanwhile> ReadMeanwhile(const std::vector<BoxImage>& boxes) {
  std::vector<Meanwhile> all;
  for (const std::string& path : FoldersOf(boxes)) {
    std::vector<Meanwhile> here = ReadMeanwhile(descriptors::Directory::Named(path));
    std::move(here.begin(), here.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace ncclwatch::reader
