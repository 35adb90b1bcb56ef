// Calls that make a communicator of MPI together, and what their ranks say differently.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/view/view.h"
#include "ncclwatch/format/arguments.h"

namespace ncclwatch::diagnosis {

struct Made {
  const Member* member = nullptr;
  const reader::Call* call = nullptr;
  const reader::CallParts* parts = nullptr;  // null: they are lost
};

// Calls that said the same.
struct ArgumentGroup {
  std::vector<const Made*> made;
};

struct Disagreement {
  const CommView* comm = nullptr;
  std::vector<ArgumentGroup> parties;  // the largest first
  std::string text;                    // what the second says differently from the first
  bool firm = true;                    // false: some MPI may get on with it
  bool everybody = false;              // all that can say something have
  std::int64_t began_ns = 0;
};

using Values = std::vector<std::uint64_t>;
struct Argued {
  Values values;
  bool whole = false;  // a hash of all of them
  bool operator==(const Argued&) const = default;
};
std::map<format::Argument, Argued> ArgumentsOf(const reader::CallParts* parts);
Values GroupOf(const reader::CallParts& parts);
std::string ListText(const Values& values);
std::string ArgumentText(format::Argument argument, const Argued& argued);
// Fills in what the two differ in, and whether that is certain to be wrong.
void CompareArguments(const Made& usual, const Made& odd, Disagreement* found);

Disagreement Between(const View& view, const CommView& comm, std::vector<ArgumentGroup> parties);

// Nothing where all say the same.
template <typename Key>
std::vector<ArgumentGroup> PartiesBy(const std::vector<const Made*>& calls, const Key& key_of) {
  std::vector<std::pair<decltype(key_of(*calls.front())), ArgumentGroup>> parties;
  for (const Made* made : calls) {
    auto key = key_of(*made);
    const auto same =
        std::find_if(parties.begin(), parties.end(), [&](const auto& party) { return party.first == key; });
    if (same == parties.end())
      parties.push_back({std::move(key), {{made}}});
    else
      same->second.made.push_back(made);
  }
  if (parties.size() < 2) return {};
  std::stable_sort(parties.begin(), parties.end(),
                   [](const auto& a, const auto& b) { return a.second.made.size() > b.second.made.size(); });
  std::vector<ArgumentGroup> result;
  for (auto& [key, party] : parties) result.push_back(std::move(party));
  return result;
}

}  // namespace ncclwatch::diagnosis
