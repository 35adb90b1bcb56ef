// One rank is late in a few steps by much, and hardly anybody else ever is. Pure, on numbers.
#pragma once

#include <optional>

#include "core/slow/points.h"
#include "core/slow/straggler.h"

namespace ncclwatch::diagnosis {

// Points are single steps. What is lost of the time in all is above `least`.
std::optional<Straggler> FindNowAndThen(const Points& points, double least);

}  // namespace ncclwatch::diagnosis
