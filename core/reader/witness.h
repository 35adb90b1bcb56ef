// How the processes of a run directory ended, as `ncclwatch run` saw it from outside: the text file witness.txt, which
// it writes where it has seen an end. It outlives the job; the leader, who sees the same, may be among those who end.
//
// Line by line, a keyword first; unknown keywords and names are passed over. Nothing here trusts a byte of the file,
// and everything is bounded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/reader/image.h"
#include "watchdog/descriptors/directory.h"

namespace ncclwatch::reader {

inline constexpr char kWitnessFile[] = "witness.txt";

struct WitnessedEnd {
  Observation seen;      // kGone or kHidden; at_ns: when it was read, no earlier than it was
  bool ordered = false;  // the file names those that are in the order in which the kernel took them down
  // Ordered, and after its end all others that were followed lived, with no signal under way that would end them.
  bool others_lived = false;
};
using Witness = std::vector<WitnessedEnd>;

std::optional<Witness> ParseWitness(std::string_view text);
// ParseWitness gives back what was formatted.
std::string Format(const Witness& witness);
std::optional<Witness> ReadWitness(const descriptors::Directory& directory);

}  // namespace ncclwatch::reader
