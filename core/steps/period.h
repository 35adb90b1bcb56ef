// Training repeats itself: the period in a chain of calls. Pure, on numbers that stand for calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ncclwatch::diagnosis {

// One call as the search sees it: equal symbols are equal calls.
struct Symbol {
  std::uint64_t call = 0;
  std::uint64_t communicator = 0;
  bool message = false;       // a send or receive
  bool heavy = true;          // moves more than a few numbers: what is logged now and then does not make a step
  std::int64_t at_ns = 0;     // when it was made
  std::uint64_t counter = 0;  // what its position counts: the collectives of a communicator, the messages to a peer
  std::uint64_t position = 0;
};

// [begin, end) repeats the block; its edges are where something else was called.
struct Stretch {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t phase = 0;  // of the call at `begin` in the block
};

struct Period {
  std::size_t length = 0;
  std::size_t block = 0;           // the block is [block, block + length), wherever in the step that begins
  std::vector<Stretch> stretches;  // in order; each holds at least two repetitions, one of them at least three
};

// The step is the shortest block that repeats itself and holds every communicator that is used again and again, and
// more than half of the different calls that are: layers inside of a step hold less, and an evaluation between steps
// adds little. None unless the block is repeated three times in a row, and such stretches make up most of the calls;
// nor while it may be a layer of the first step, unless the caller takes the one for the other. O(n log n).
enum class Layers { kAreNoSteps, kMayBeSteps };
std::optional<Period> FindPeriod(const std::vector<Symbol>& symbols, Layers layers = Layers::kAreNoSteps);

// The distance at which windows of one width most often come again; 0: none does.
std::size_t UsualDistance(const std::vector<Symbol>& symbols, std::size_t width);

// Where [pattern, pattern + length) occurs in [begin, end), in order; occurrences may overlap. Linear.
std::vector<std::size_t> Occurrences(const std::vector<Symbol>& symbols, std::size_t pattern, std::size_t length,
                                     std::size_t begin, std::size_t end);

}  // namespace ncclwatch::diagnosis
