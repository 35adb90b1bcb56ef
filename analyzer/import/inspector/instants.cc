#include "analyzer/import/inspector/instants.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer::import::inspector {
namespace {

// Lines of one flush follow one another within microseconds. Inspector's own page proposes a flush every 500 us.
constexpr std::int64_t kOneFlush_ns = 300'000;
constexpr std::size_t kFewestFlushes = 10;  // that tell how fast a job goes on
constexpr std::size_t kAround_flushes = 8;  // on either side

struct Flush {
  std::size_t begin = 0;
  std::int64_t at_ns = 0;
};

std::vector<Flush> FlushesOf(const std::vector<Operation>& operations) {
  std::vector<Flush> flushes;
  for (std::size_t i = 0; i < operations.size(); ++i)
    if (i == 0 || operations[i].written_ns - operations[i - 1].written_ns > kOneFlush_ns)
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

// A job ends before its last flush: what is in it was as fast as what was in the one before.
std::int64_t EndOfLast(std::size_t count, std::size_t before, std::int64_t from, std::int64_t at_ns) {
  const double share = std::min(1.0, static_cast<double>(count) / static_cast<double>(before));
  return from + static_cast<std::int64_t>(static_cast<double>(at_ns - from) * share);
}

// Numbers tell how many older operations a ring has lost.
std::uint64_t LostBefore(const std::vector<Operation>& operations) {
  std::map<functions::Function, std::uint64_t> first;  // messages are counted from 1, and together
  for (const Operation& one : operations)
    if (!one.is_message) first.try_emplace(one.function, one.number);
  std::uint64_t lost = 0;
  for (const auto& [function, number] : first) lost += number;
  const auto message =
      std::find_if(operations.begin(), operations.end(), [](const auto& one) { return one.is_message; });
  return message == operations.end() ? lost : lost + std::max<std::uint64_t>(message->number, 1) - 1;
}

// Of the second that stands for the whole job.
std::int64_t LostShare_ns(const std::vector<Operation>& operations) {
  const auto lost = static_cast<double>(LostBefore(operations));
  return static_cast<std::int64_t>(kSecond * lost / (lost + static_cast<double>(operations.size())));
}

std::vector<std::int64_t> WrittenAt(const std::vector<Operation>& operations) {
  std::vector<std::int64_t> at_ns(operations.size());
  const std::vector<Flush> flushes = FlushesOf(operations);
  if (flushes.empty()) return at_ns;
  std::int64_t from = 2 * flushes.front().at_ns - flushes[std::min<std::size_t>(1, flushes.size() - 1)].at_ns;
  for (std::size_t i = 0; i < flushes.size(); ++i) {
    const std::size_t end = i + 1 < flushes.size() ? flushes[i + 1].begin : operations.size();
    const bool last = i > 0 && i + 1 == flushes.size();
    const std::int64_t to =
        last ? EndOfLast(end - flushes[i].begin, flushes[i].begin - flushes[i - 1].begin, from, flushes[i].at_ns)
             : flushes[i].at_ns;
    Spread(flushes[i].begin, end, from, to, &at_ns);
    from = flushes[i].at_ns;
  }
  return at_ns;
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
  if (timing == Timing::kWritten) return WrittenAt(operations);
  std::vector<std::int64_t> at_ns(operations.size());
  if (timing == Timing::kCalled)
    std::transform(operations.begin(), operations.end(), at_ns.begin(), [](const auto& one) { return one.called_ns; });
  else if (!operations.empty())
    Spread(0, operations.size(), LostShare_ns(operations), kSecond, &at_ns);
  return at_ns;
}

std::vector<double> Evened(const std::vector<double>& places, const std::vector<Operation>& operations, Timing timing) {
  if (timing != Timing::kWritten || places.empty()) return places;
  const std::size_t around = kAround_flushes * places.size() / FlushesOf(operations).size();
  std::vector<double> sums(1, 0), evened;
  for (const double place : places) sums.push_back(sums.back() + place);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::size_t reach = std::min({around, i, places.size() - 1 - i});
    evened.push_back((sums[i + reach + 1] - sums[i - reach]) / static_cast<double>(2 * reach + 1));
  }
  return evened;
}

}  // namespace ncclwatch::analyzer::import::inspector
