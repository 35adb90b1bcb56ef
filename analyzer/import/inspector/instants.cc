#include "analyzer/import/inspector/instants.h"

#include <algorithm>
#include <cstddef>

#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer::import::inspector {
namespace {

constexpr std::int64_t kOneFlush_ns = 2'000'000;  // what is written within that time was written together
constexpr std::size_t kFewestFlushes = 10;        // that tell how fast a job goes on

struct Flush {
  std::size_t begin = 0;
  std::int64_t at_ns = 0;
};

std::vector<Flush> FlushesOf(const std::vector<Operation>& operations) {
  std::vector<Flush> flushes;
  for (std::size_t i = 0; i < operations.size(); ++i)
    if (flushes.empty() || operations[i].written_ns - flushes.back().at_ns > kOneFlush_ns)
      flushes.push_back({i, operations[i].written_ns});
  return flushes;
}

// Evenly over (from, to].
void Spread(std::size_t begin, std::size_t end, std::int64_t from, std::int64_t to, std::vector<std::int64_t>* at_ns) {
  for (std::size_t i = begin; i < end; ++i) {
    const double share = static_cast<double>(i - begin + 1) / static_cast<double>(end - begin);
    (*at_ns)[i] = from + static_cast<std::int64_t>(static_cast<double>(to - from) * share);
  }
}

}  // namespace

Timing TimingOf(const std::vector<Operation>& operations) {
  const auto called = [](const Operation& one) { return one.called_ns > 0; };
  const auto earlier = [](const Operation& a, const Operation& b) { return a.called_ns < b.called_ns; };
  if (std::all_of(operations.begin(), operations.end(), called) &&
      std::is_sorted(operations.begin(), operations.end(), earlier))
    return Timing::kCalled;
  const std::vector<Flush> flushes = FlushesOf(operations);
  std::int64_t in_kernels_ns = 0;
  for (const Operation& one : operations) in_kernels_ns += one.kernel_ns;
  // One long flush looks like many; but no job is in kernels for longer than it runs.
  const bool tell = flushes.size() >= kFewestFlushes && flushes.back().at_ns - flushes.front().at_ns > in_kernels_ns;
  return tell ? Timing::kWritten : Timing::kNone;
}

std::vector<std::int64_t> InstantsOf(const std::vector<Operation>& operations, Timing timing) {
  std::vector<std::int64_t> at_ns(operations.size());
  if (timing == Timing::kCalled) {
    std::transform(operations.begin(), operations.end(), at_ns.begin(), [](const auto& one) { return one.called_ns; });
  } else if (timing == Timing::kNone) {
    Spread(0, operations.size(), 0, kSecond, &at_ns);
  } else {
    const std::vector<Flush> flushes = FlushesOf(operations);
    std::int64_t from =
        flushes.empty() ? 0 : 2 * flushes.front().at_ns - flushes[std::min<std::size_t>(1, flushes.size() - 1)].at_ns;
    for (std::size_t i = 0; i < flushes.size(); ++i) {
      const std::size_t end = i + 1 < flushes.size() ? flushes[i + 1].begin : operations.size();
      Spread(flushes[i].begin, end, from, flushes[i].at_ns, &at_ns);
      from = flushes[i].at_ns;
    }
  }
  return at_ns;
}

}  // namespace ncclwatch::analyzer::import::inspector
