#include "analyzer/shrink/minimize.h"

#include <algorithm>
#include <numeric>

namespace ncclwatch::analyzer {
namespace {

std::vector<std::size_t> WithoutRun(const std::vector<std::size_t>& all, std::size_t begin, std::size_t length) {
  std::vector<std::size_t> left(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(begin));
  const std::size_t end = std::min(all.size(), begin + length);
  left.insert(left.end(), all.begin() + static_cast<std::ptrdiff_t>(end), all.end());
  return left;
}

}  // namespace

std::vector<std::size_t> Minimize(std::size_t n, const std::function<bool(const std::vector<std::size_t>&)>& holds) {
  std::vector<std::size_t> left(n);
  std::iota(left.begin(), left.end(), std::size_t{0});
  for (std::size_t length = std::max<std::size_t>(1, n); !left.empty();) {
    bool took = false;
    for (std::size_t begin = 0; begin < left.size();) {
      std::vector<std::size_t> fewer = WithoutRun(left, begin, length);
      if (holds(fewer)) {
        left = std::move(fewer);
        took = true;
      } else {
        begin += length;
      }
    }
    if (length == 1 && !took) break;
    length = std::max<std::size_t>(1, length / 2);
  }
  return left;
}

}  // namespace ncclwatch::analyzer
