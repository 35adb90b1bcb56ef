#include "core/reader/witness.h"

#include <algorithm>

#include "core/reader/file.h"
#include "core/reader/lines.h"

namespace ncclwatch::reader {
namespace {

constexpr std::string_view kMagic = "ncclwatch.witness/1";
constexpr std::size_t kMostWitnessBytes = 4 << 20;
constexpr std::size_t kMostEnds = 16384;  // processes of one node

// "end pid N start T place P rank R at_ns NS ...": pairs of name and value in any order, unknown names passed over.
std::optional<WitnessedEnd> End(std::string_view line) {
  WitnessedEnd end;
  Observation& seen = end.seen;
  int ordered = 0, lived = 0;
  std::string_view what;
  bool whole = true;
  for (std::string_view name = Word(&line); !name.empty(); name = Word(&line)) {
    const std::string_view value = Word(&line);
    if (name == "pid") whole &= ReadNumber(value, &seen.pid);
    if (name == "start") whole &= ReadNumber(value, &seen.start_time);
    if (name == "place") whole &= ReadNumber(value, &seen.place);
    if (name == "rank") whole &= ReadNumber(value, &seen.rank);
    if (name == "at_ns") whole &= ReadNumber(value, &seen.at_ns);
    if (name == "what") what = value;
    if (name == "flags") whole &= ReadNumber(value, &seen.exit_flags);
    if (name == "signal") whole &= ReadNumber(value, &seen.exit_signal);
    if (name == "status") whole &= ReadNumber(value, &seen.exit_status);
    if (name == "ordered") whole &= ReadNumber(value, &ordered);
    if (name == "others_lived") whole &= ReadNumber(value, &lived);
  }
  if (!whole || seen.pid == 0 || seen.start_time == 0 || (what != "gone" && what != "hidden")) return std::nullopt;
  seen.what = what == "gone" ? format::Observed::kGone : format::Observed::kHidden;
  end.ordered = ordered == 1;
  end.others_lived = end.ordered && lived == 1;
  return end;
}

}  // namespace

std::optional<Witness> ParseWitness(std::string_view text) {
  Lines lines(text.substr(0, kMostWitnessBytes));
  std::string_view line;
  if (!lines.Next(&line) || line != kMagic) return std::nullopt;
  Witness witness;
  while (lines.Next(&line) && witness.size() < kMostEnds) {
    if (Word(&line) != "end") continue;
    if (std::optional<WitnessedEnd> end = End(line)) witness.push_back(*end);
  }
  return witness;
}

std::string Format(const Witness& witness) {
  std::string text = std::string(kMagic) + "\n";
  const auto add = [&text](const char* name, auto value) { text += name + std::to_string(value); };
  for (const WitnessedEnd& end : witness) {
    add("end pid ", end.seen.pid);
    add(" start ", end.seen.start_time);
    add(" place ", end.seen.place);
    add(" rank ", end.seen.rank);
    add(" at_ns ", end.seen.at_ns);
    text += end.seen.what == format::Observed::kGone ? " what gone" : " what hidden";
    add(" flags ", end.seen.exit_flags);
    add(" signal ", end.seen.exit_signal);
    add(" status ", end.seen.exit_status);
    add(" ordered ", int{end.ordered});
    add(" others_lived ", int{end.others_lived});
    text += "\n";
  }
  return text;
}

std::optional<Witness> ReadWitness(const descriptors::Directory& directory) {
  const File file(directory, kWitnessFile);
  if (!file.reason().empty()) return std::nullopt;
  std::string text(std::min<std::uint64_t>(file.bytes(), kMostWitnessBytes), '\0');
  text.resize(file.ReadAt(0, text.data(), text.size()));
  return ParseWitness(text);
}

}  // namespace ncclwatch::reader
