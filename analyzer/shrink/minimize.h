// Delta debugging (Zeller and Hildebrandt, 2002), as far as it takes away.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace ncclwatch::analyzer {

// Of 0 to n - 1 what is left when nothing single can go and no run of them as tried, ascending. `holds` says whether
// these are enough; all of them are.
std::vector<std::size_t> Minimize(std::size_t n, const std::function<bool(const std::vector<std::size_t>&)>& holds);

}  // namespace ncclwatch::analyzer
