// What the beginning of a log line says: which rank and host wrote it, and when.
#pragma once

#include <absl/time/time.h>

#include <optional>
#include <string>
#include <string_view>

namespace ncclwatch::analyzer {

struct LinePrefix {
  int rank = -1;        // of the job; -1: not said
  int local_rank = -1;  // on its host: torchrun's [default3]:
  std::string_view rest;
};

// "[rank3]: ", "[default3]:", "[1,3]<stderr>:", and with `numbered` "3: " of `srun -l`. They may follow one another.
LinePrefix ParsePrefix(std::string_view line, bool numbered);

std::string WithoutColors(std::string_view line);  // terminal sequences taken out

struct Stamp {
  absl::Time time;
  bool has_zone = false;  // else taken as UTC, as all others without one
};

// The first time stamp within the line's first letters: ISO 8601, "2026-11-26 12:00:03,123", glog's "E1126 12:00:03.1",
// "Nov 26 12:00:03", "[Thu Nov 26 12:00:03 2026]". `year` is for those that say none.
std::optional<Stamp> ParseStamp(std::string_view line, int year);

}  // namespace ncclwatch::analyzer
