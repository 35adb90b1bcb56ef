// Two sequences of calls from their first difference on: which one change turns the one into the other. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ncclwatch::diagnosis {

enum class Change {
  kExtra,     // the odd one made calls that the usual one did not make there
  kLeftOut,   // ... did not make calls that the usual one made
  kReplaced,  // ... made other calls instead
  kReordered  // ... made the same calls in another order
};

struct Alignment {
  Change change{};
  std::size_t calls = 0;  // how many were added, left out, ...
  std::size_t agree = 0;  // calls after them that are equal: all that both have made within the window
};

inline constexpr std::size_t kMostChanged = 8;
inline constexpr std::size_t kEnoughAgree = 3;    // fewer may agree by chance
inline constexpr std::size_t kAlignedCalls = 64;  // more of them tell nothing new

// The smallest changes after which at least `enough` calls agree and none differs; several if they explain it
// equally well (in a loop of one call an extra call looks like a replaced one). Both begin at the first difference.
std::vector<Alignment> Align(const std::vector<std::uint64_t>& usual, const std::vector<std::uint64_t>& odd,
                             std::size_t enough = kEnoughAgree);

// Which call of a run of equal ones was left out, or is one too many: equal calls match silently, so that the first
// difference comes behind the run. Indices into the longer run, `first` = `last` if it is known.
struct InRun {
  std::size_t first = 0;
  std::size_t last = 0;
};
// By the places from which the calls were made, 0 is unknown: `longer` holds that one call, `shorter` has one less.
InRun WhichOfRun(const std::vector<std::uint64_t>& longer, const std::vector<std::uint64_t>& shorter);

}  // namespace ncclwatch::diagnosis
