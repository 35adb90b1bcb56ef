#include "core/compare/sequence_alignment.h"

#include <algorithm>

namespace ncclwatch::diagnosis {
namespace {

// Calls that agree if the first `skip_usual` and `skip_odd` are passed over; 0 if any differs.
std::size_t Agreeing(const std::vector<std::uint64_t>& usual, std::size_t skip_usual,
                     const std::vector<std::uint64_t>& odd, std::size_t skip_odd) {
  if (skip_usual >= usual.size() || skip_odd >= odd.size()) return 0;
  const std::size_t both = std::min({usual.size() - skip_usual, odd.size() - skip_odd, kAlignedCalls});
  const auto from = usual.begin() + static_cast<std::ptrdiff_t>(skip_usual);
  const bool equal =
      std::equal(from, from + static_cast<std::ptrdiff_t>(both), odd.begin() + static_cast<std::ptrdiff_t>(skip_odd));
  return equal ? both : 0;
}

bool SameCalls(const std::vector<std::uint64_t>& usual, const std::vector<std::uint64_t>& odd, std::size_t count) {
  const auto end = static_cast<std::ptrdiff_t>(count);
  return std::is_permutation(usual.begin(), usual.begin() + end, odd.begin(), odd.begin() + end);
}

// All that `longer` has without its call `at`, as far as both are known.
bool IsWithout(const std::vector<std::uint64_t>& longer, std::size_t at, const std::vector<std::uint64_t>& shorter) {
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    const std::uint64_t there = longer[i < at ? i : i + 1];
    if (there != 0 && shorter[i] != 0 && there != shorter[i]) return false;
  }
  return true;
}

}  // namespace

std::vector<Alignment> Align(const std::vector<std::uint64_t>& usual, const std::vector<std::uint64_t>& odd,
                             std::size_t enough) {
  std::vector<Alignment> found;
  const auto add = [&](Change change, std::size_t calls, std::size_t agree) {
    if (agree >= enough) found.push_back({change, calls, agree});
  };
  for (std::size_t calls = 1; calls <= kMostChanged && found.empty(); ++calls) {
    add(Change::kExtra, calls, Agreeing(usual, 0, odd, calls));
    add(Change::kLeftOut, calls, Agreeing(usual, calls, odd, 0));
    const std::size_t after = Agreeing(usual, calls, odd, calls);
    if (after > 0) add(SameCalls(usual, odd, calls) ? Change::kReordered : Change::kReplaced, calls, after);
  }
  return found;
}

InRun WhichOfRun(const std::vector<std::uint64_t>& longer, const std::vector<std::uint64_t>& shorter) {
  std::vector<std::size_t> ways;
  for (std::size_t at = 0; at < longer.size(); ++at)
    if (IsWithout(longer, at, shorter)) ways.push_back(at);
  return ways.empty() ? InRun{0, longer.size() - 1} : InRun{ways.front(), ways.back()};
}

}  // namespace ncclwatch::diagnosis
