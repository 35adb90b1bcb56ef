#include "analyzer/export/calls/otf2_communicators.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/model/text.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer::exporting {
namespace {

constexpr std::size_t kNobody = SIZE_MAX;
constexpr char kAllRanks[] = "ranks";
// Between two groups, of windows and of files OTF2 has other definitions.
constexpr std::uint32_t kOther = format::kCommInter | format::kCommWindow | format::kCommFile |
                                 format::kCommRankUnknown | format::kCommIdentityUnknown;

}  // namespace

Otf2Communicators::Otf2Communicators(const Recording& recording) {
  std::map<std::uint64_t, Known> found;
  for (std::size_t number = 0; number < recording.processes().size(); ++number) {
    for (const IndexedCommunicator& one : recording.processes()[number].communicators()) {
      if ((one.flags & format::kCommMpi) == 0 || (one.flags & kOther) != 0 || one.rank >= one.size) continue;
      Known& known = found[one.id];
      known.name = one.label.empty() ? diagnosis::Hex16(one.id) : Printable(one.label);
      if (known.processes.size() < one.size) known.processes.resize(one.size, kNobody);
      known.processes[one.rank] = number;
    }
  }
  std::set<std::size_t> processes;
  for (auto& [id, known] : found) {
    if (std::find(known.processes.begin(), known.processes.end(), kNobody) != known.processes.end()) continue;
    number_of_[id] = static_cast<OTF2_CommRef>(all_.size());
    processes.insert(known.processes.begin(), known.processes.end());
    all_.push_back(std::move(known));
  }
  processes_.assign(processes.begin(), processes.end());
  const auto rank = [&](std::size_t number) { return recording.processes()[number].rank(); };
  std::stable_sort(processes_.begin(), processes_.end(), [&](auto a, auto b) { return rank(a) < rank(b); });
}

std::optional<OTF2_CommRef> Otf2Communicators::Of(std::uint64_t communicator) const {
  const auto found = number_of_.find(communicator);
  return found == number_of_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> Otf2Communicators::Names() const {
  std::vector<std::string> names{kAllRanks};
  for (const Known& known : all_) names.push_back(known.name);
  return names;
}

// Members of a communicator are places in the group of all locations that take part.
void Otf2Communicators::Write(OTF2_GlobalDefWriter* to, const TextOf& text, const LocationOf& location) const {
  if (all_.empty()) return;
  constexpr OTF2_GroupRef kEverybody = 0;
  std::vector<std::uint64_t> locations;
  std::map<std::size_t, std::uint64_t> place_of;
  for (const std::size_t process : processes_) {
    place_of[process] = locations.size();
    locations.push_back(location(process));
  }
  OTF2_GlobalDefWriter_WriteGroup(to, kEverybody, text(kAllRanks), OTF2_GROUP_TYPE_COMM_LOCATIONS, OTF2_PARADIGM_MPI,
                                  OTF2_GROUP_FLAG_NONE, static_cast<std::uint32_t>(locations.size()), locations.data());
  for (std::size_t i = 0; i < all_.size(); ++i) {
    std::vector<std::uint64_t> members;
    for (const std::size_t process : all_[i].processes) members.push_back(place_of.at(process));
    OTF2_GlobalDefWriter_WriteGroup(to, static_cast<OTF2_GroupRef>(i + 1), text(all_[i].name),
                                    OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE,
                                    static_cast<std::uint32_t>(members.size()), members.data());
  }
  for (std::size_t i = 0; i < all_.size(); ++i)
    OTF2_GlobalDefWriter_WriteComm(to, static_cast<OTF2_CommRef>(i), text(all_[i].name),
                                   static_cast<OTF2_GroupRef>(i + 1), OTF2_UNDEFINED_COMM, OTF2_COMM_FLAG_NONE);
}

}  // namespace ncclwatch::analyzer::exporting
