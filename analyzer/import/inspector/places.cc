#include "analyzer/import/inspector/places.h"

#include <algorithm>
#include <cmath>

namespace ncclwatch::analyzer::import::inspector {
namespace {

constexpr double kSamePace = 0.03;  // of all steps: a stage of a pipeline may have a layer more than another

}  // namespace

Kind PlacesOf(const Joined& joined, const std::vector<double>& places) {
  Kind own;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Operation& one = joined.first()[i];
    if (!one.is_message) own[{one.function, one.number}] = {places[i], 1};
  }
  return own;
}

Calls CallsOf(const Joined& joined) {
  Calls calls{joined.size, {}};
  for (const Operation& one : joined.first())
    if (!one.is_message) calls.second.insert({one.function, one.bytes});
  return calls;
}

Kinds::Kinds(const Calls& calls, Kind reference, std::size_t steps)
    : reference_(std::move(reference)), steps_(static_cast<double>(steps)), kinds_{reference_}, alike_{{calls, {0}}} {}

std::size_t Kinds::Add(const Calls& calls, const Kind& own, bool exact) {
  std::vector<std::size_t>& kinds = alike_[calls];
  const auto same =
      std::find_if(kinds.begin(), kinds.end(), [&](std::size_t kind) { return KeepsPace(own, kinds_[kind]); });
  if (exact || same == kinds.end()) {
    kinds_.push_back(own);
    if (!exact) kinds.push_back(kinds_.size() - 1);
    return kinds_.size() - 1;
  }
  for (const auto& [call, place] : own) {
    Place& all = kinds_[*same][call];
    all.sum += place.sum;
    all.count += place.count;
  }
  return *same;
}

std::vector<Kind> Kinds::Take() && {
  for (const auto& [call, place] : reference_) kinds_.front()[call] = place;
  return std::move(kinds_);
}

// As numbers go up, steps do so in both alike.
bool Kinds::KeepsPace(const Kind& own, const Kind& kind) const {
  double apart = 0, common = 0;
  for (const auto& [call, place] : own)
    if (const auto same = kind.find(call); same != kind.end()) {
      apart += std::abs(place.mean() - same->second.mean());
      ++common;
    }
  return common > 0 && apart <= kSamePace * steps_ * common;
}

}  // namespace ncclwatch::analyzer::import::inspector
