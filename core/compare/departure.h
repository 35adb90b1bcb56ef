// Who is wrong where ranks differ, beyond the majority: what the calls before and after tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/compare/align.h"
#include "core/compare/sequence_alignment.h"

namespace ncclwatch::diagnosis {

// The members have repeated the same calls on the communicator before; only one side goes on as it did each time.
struct Departure {
  std::size_t goes_on = 0;   // the side that does
  std::size_t repeated = 0;  // so often its call has followed on the same calls before; the others' never did
  std::size_t period = 0;    // calls on this communicator that repeat themselves
  bool new_site = false;     // the others call from where they never called on it before
};

// None where nothing repeats itself, or what happened now has happened there before too (an evaluation now and then),
// or the place of the calls contradicts.
std::optional<Departure> DepartureAt(const View& view, const CommView& comm, const Difference& difference);

// The side whose call is the one that its members have always made from this place, at least three times, while the
// others have made another one from there than ever before. None: nothing tells it.
std::optional<std::size_t> GoesOnAtItsPlace(const View& view, const CommView& comm, const Difference& difference);

// How the calls of the sides from the position on can be turned into one another.
std::vector<Alignment> AlignSides(const View& view, const CommView& comm, const Difference& difference,
                                  const Side& usual, const Side& odd);

// `alignment`: one call left out, or one extra. The call may stand before the difference, in a run of equal ones; by
// the places of the calls if they tell. Positions on the communicator.
InRun PlaceOfChange(const View& view, const CommView& comm, const Difference& difference, const Side& usual,
                    const Side& odd, const Alignment& alignment);

// The side has made the same call on the communicator before.
bool WasMadeBefore(const View& view, const CommView& comm, const Difference& difference, const Side& side);

// Whether the sides have gone on long enough to be aligned, and nothing simple makes them one: one of them does
// something else altogether.
bool HaveParted(const View& view, const CommView& comm, const Difference& difference, const Side& usual,
                const Side& odd);

}  // namespace ncclwatch::diagnosis
