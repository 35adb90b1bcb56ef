#include "analyzer/import/kineto/groups.h"

#include <absl/strings/str_cat.h>
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "core/reader/layout.h"

namespace ncclwatch::analyzer::import::kineto {
namespace {

constexpr char kWorld[] = "world";
constexpr std::size_t kMostGroups = 1 << 16;

std::vector<int> RanksFrom(std::int64_t start, std::int64_t stride, std::int64_t size) {
  std::vector<int> ranks;
  constexpr std::int64_t kMost = reader::kMaxCommunicatorSize;
  if (start < 0 || stride <= 0 || size <= 0 || size > kMost || start > INT32_MAX || stride > INT32_MAX / size - start)
    return ranks;
  for (std::int64_t i = 0; i < size; ++i) ranks.push_back(static_cast<int>(start + i * stride));
  return ranks;
}

const GroupConfig* ConfigOf(const std::vector<GroupConfig>& told, const std::string& name) {
  const auto found = std::find_if(told.begin(), told.end(), [&](const GroupConfig& one) { return one.name == name; });
  return found == told.end() ? nullptr : &*found;
}

// A job rank as the rank in the group; as it is where the group's ranks are not told.
int RankIn(const TraceGroup& group, int job_rank) {
  if (group.ranks.empty()) return job_rank;
  const auto place = std::find(group.ranks.begin(), group.ranks.end(), job_rank);
  return place == group.ranks.end() ? -1 : static_cast<int>(place - group.ranks.begin());
}

}  // namespace

int Groups::Of(const Event& event) {
  if (event.group.empty() && event.ranks.empty() && event.rank_start < 0) return World("");
  const std::string key =
      absl::StrCat(event.group, "|", event.ranks, "|", event.rank_start, "|", event.rank_stride, "|", event.group_size);
  const auto [found, fresh] = number_of_.try_emplace(key, static_cast<int>(named_.size()));
  if (fresh && named_.size() >= kMostGroups) {
    number_of_.erase(found);
    return World("");
  }
  if (fresh)
    named_.push_back(
        {event.group, event.description, event.ranks, event.rank_start, event.rank_stride, event.group_size});
  return found->second;
}

int Groups::World(std::string_view backend) {
  const std::string name = backend.empty() ? kWorld : fmt::format("{}:{}", backend, kWorld);
  const auto [found, fresh] = number_of_.try_emplace(name, static_cast<int>(named_.size()));
  if (fresh) named_.push_back({.name = name, .description = "", .ranks = ""});
  return found->second;
}

TraceGroup Groups::Resolved(const Told& named, const std::vector<GroupConfig>& told, int world_size) {
  const GroupConfig* const config = ConfigOf(told, named.name);
  TraceGroup group;
  group.name = named.name;
  const std::string& description = named.description.empty() && config ? config->description : named.description;
  if (!description.empty() && description != "undefined") group.label = absl::StrCat(named.name, ":", description);
  group.ranks = RanksIn(named.ranks);
  if (group.ranks.empty()) group.ranks = RanksFrom(named.start, named.stride, named.size);
  if (group.ranks.empty() && config) group.ranks = config->ranks;
  if (group.ranks.size() > reader::kMaxCommunicatorSize) group.ranks.clear();
  const std::int64_t size = named.size > 0 ? named.size : config ? config->size : world_size;
  if (group.ranks.empty() && size == world_size) group.ranks = RanksFrom(0, 1, world_size);
  if (group.ranks.empty()) group.size = static_cast<int>(std::clamp<std::int64_t>(size, 0, INT32_MAX));
  return group;
}

void Groups::Resolve(const std::vector<GroupConfig>& told, Trace* trace,
                     const std::vector<std::vector<TraceCall>*>& calls) {
  std::vector<int> place_of;
  for (const Told& named : named_) place_of.push_back(trace->GroupOf(Resolved(named, told, trace->world_size)));
  for (std::vector<TraceCall>* const some : calls)
    for (TraceCall& traced : *some) {
      if (traced.group < 0) continue;
      traced.group = place_of[static_cast<std::size_t>(traced.group)];
      const TraceGroup& group = trace->groups[static_cast<std::size_t>(traced.group)];
      if (functions::IsMessage(traced.call.function) && traced.call.root >= 0)
        traced.call.root = RankIn(group, traced.call.root);
      if (group.ranks.size() == 1) traced.call.flags |= format::kOneRank;
    }
}

}  // namespace ncclwatch::analyzer::import::kineto
