#include "analyzer/import/inspector/clocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "core/slow/robust.h"

namespace ncclwatch::analyzer::import::inspector {
namespace {

constexpr std::int64_t kAgree_ns = 1'000'000'000;

// Members end a collective together, and write it down soon after.
std::optional<std::int64_t> Ahead(const std::vector<Operation>& one, const std::vector<Operation>& other,
                                  Timing timing) {
  std::map<std::pair<functions::Function, std::uint64_t>, std::int64_t> ended;
  const std::vector<std::int64_t> at_ns = InstantsOf(one, timing), other_ns = InstantsOf(other, timing);
  for (std::size_t i = 0; i < one.size(); ++i)
    if (!one[i].is_message) ended[{one[i].function, one[i].number}] = at_ns[i];
  std::vector<std::int64_t> ahead;
  for (std::size_t i = 0; i < other.size(); ++i)
    if (const auto same = ended.find({other[i].function, other[i].number}); !other[i].is_message && same != ended.end())
      ahead.push_back(other_ns[i] - same->second);
  return ahead.empty() ? std::nullopt : std::optional(diagnosis::Median(std::move(ahead)));
}

}  // namespace

std::vector<std::int64_t> ClocksAhead(const std::vector<const Joined*>& communicators, const std::vector<int>& hosts,
                                      int of, Timing timing) {
  std::vector<std::optional<std::int64_t>> known(hosts.empty() ? 0 : *std::max_element(hosts.begin(), hosts.end()) + 1);
  if (timing != Timing::kNone) known[static_cast<std::size_t>(of)] = 0;
  const auto clock_of = [&](std::size_t row) -> std::optional<std::int64_t>& {
    return known[static_cast<std::size_t>(hosts[row])];
  };
  for (bool more = true; more;) {
    more = false;
    for (const Joined* const one : communicators) {
      const auto from = std::find_if(one->members.begin(), one->members.end(),
                                     [&](const auto& member) { return clock_of(member.first).has_value(); });
      if (from == one->members.end()) continue;
      for (const auto& [row, operations] : one->members) {
        if (clock_of(row)) continue;
        const auto ahead = Ahead(*from->second, *operations, timing);
        if (ahead) clock_of(row) = *clock_of(from->first) + *ahead, more = true;
      }
    }
  }
  std::vector<std::int64_t> ahead;
  for (const auto& one : known) ahead.push_back(std::abs(one.value_or(0)) > kAgree_ns ? *one : 0);
  return ahead;
}

}  // namespace ncclwatch::analyzer::import::inspector
