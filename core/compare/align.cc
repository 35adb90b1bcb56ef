#include "core/compare/align.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/view/whole.h"
#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

constexpr std::uint64_t kNone = UINT64_MAX;

// The calls of one member, contiguous in position: what is before a hole cannot be compared by chain.
struct Range {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

Range Held(const Member& member) {
  if (member.calls.empty()) return {};
  return {member.calls.front()->position, member.calls.back()->position + 1};
}

std::vector<std::uint64_t> GroupPrints(const Member& member, std::uint64_t group, std::uint64_t* end) {
  std::vector<std::uint64_t> prints;
  for (const Call* call : member.calls) {
    if (call->group != group) continue;
    prints.push_back(FingerprintOf(*call));
    *end = std::max(*end, call->position + 1);
  }
  std::sort(prints.begin(), prints.end());
  return prints;
}

// NCCL sorts the calls of one group itself: the same calls in another order are one and the same. A group that one
// side has not closed yet cannot be judged; what it holds so far must be part of the other's.
// Returns the position after the groups if they pass, else kNone.
std::uint64_t PastEqualGroups(const Member& a, const Call& at_a, const Member& b, const Call& at_b) {
  if (at_a.group == 0 || at_b.group == 0) return kNone;
  std::uint64_t end = 0;
  const std::vector<std::uint64_t> prints_a = GroupPrints(a, at_a.group, &end);
  const std::vector<std::uint64_t> prints_b = GroupPrints(b, at_b.group, &end);
  if (prints_a == prints_b) return end;
  const bool a_open = a.comm->returned <= at_a.position;
  const bool b_open = b.comm->returned <= at_b.position;
  const bool a_in_b = std::includes(prints_b.begin(), prints_b.end(), prints_a.begin(), prints_a.end());
  const bool b_in_a = std::includes(prints_a.begin(), prints_a.end(), prints_b.begin(), prints_b.end());
  return (a_open && a_in_b) || (b_open && b_in_a) ? end : kNone;
}

// First position in [from, end) at which the fingerprints differ beyond what a group may permute. Goes by the calls
// that are there: positions of a damaged box may be astronomically far apart.
std::uint64_t CompareCalls(const Member& a, const Member& b, std::uint64_t from, std::uint64_t end) {
  for (const Call* at_a : a.calls) {
    if (at_a->position < from) continue;
    if (at_a->position >= end) break;
    const Call* at_b = b.At(at_a->position);
    if (at_b == nullptr || FingerprintOf(*at_a) == FingerprintOf(*at_b)) continue;
    const std::uint64_t past = PastEqualGroups(a, *at_a, b, *at_b);
    if (past == kNone) return at_a->position;
    from = past;
  }
  return kNone;
}

struct Found {
  std::uint64_t position = kNone;
  bool surely_first = false;
};

Found FirstDifference(const Member& a, const Member& b) {
  const Range held_a = Held(a);
  const Range held_b = Held(b);
  std::uint64_t low = std::max(held_a.first, held_b.first);
  const std::uint64_t end = std::min(held_a.end, held_b.end);
  if (low >= end) return {};
  const std::uint64_t held = low;
  const auto equal_through = [&](std::uint64_t position) {
    const Call* at_a = a.At(position);
    const Call* at_b = b.At(position);
    return at_a != nullptr && at_b != nullptr && at_a->chain == at_b->chain;
  };
  if (equal_through(end - 1)) return {};
  // Chains that have parted never meet again: the first position from which on they differ.
  std::uint64_t high = end;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (equal_through(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  // Differing chains at the first call that both hold: they may have parted before it.
  return {CompareCalls(a, b, low, end), low == 0 || low > held};
}

void Rank(Difference* difference) {
  std::stable_sort(difference->sides.begin(), difference->sides.end(),
                   [](const Side& a, const Side& b) { return a.members.size() > b.members.size(); });
  difference->tie = difference->sides[0].members.size() == difference->sides[1].members.size();
}

bool CanStillArrive(const View& view, const Member& member) {
  return !view.process(member).outcome.gone() &&
         (member.alive_in() || member.comm->state == format::CommunicatorState::kInitializing);
}

Difference Describe(const View& view, const CommView& comm, std::uint64_t position) {
  Difference difference;
  difference.position = position;
  difference.everybody_arrived = comm.members.size() == comm.size;
  std::map<std::uint64_t, std::size_t> side_of;
  std::vector<std::int64_t> began;
  for (std::size_t m = 0; m < comm.members.size(); ++m) {
    const Member& member = comm.members[m];
    const Call* call = member.At(position);
    if (call == nullptr) {
      if (member.entered <= position && CanStillArrive(view, member)) difference.everybody_arrived = false;
      continue;
    }
    const std::int64_t at = view.process(member).At(call->entered_ns);
    const auto [found, fresh] = side_of.try_emplace(FingerprintOf(*call), difference.sides.size());
    if (fresh) {
      difference.sides.push_back({{}, call});
      began.push_back(at);
    }
    difference.sides[found->second].members.push_back(static_cast<int>(m));
    began[found->second] = std::min(began[found->second], at);
  }
  std::sort(began.begin(), began.end());
  difference.began_ns = began.size() > 1 ? began[1] : 0;
  for (const Side& side : difference.sides) {
    if (format::Canonical(side.call->function) != format::Canonical(difference.sides[0].call->function)) {
      difference.other_operation = true;
    }
  }
  return difference;
}

// Equality is transitive: comparing each member with the next one in order of progress finds every difference that the
// rings still hold.
Found FirstDifferentPosition(const CommView& comm) {
  const std::vector<const Member*> order = InOrderOfProgress(comm);
  Found first;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Found found = FirstDifference(*order[i - 1], *order[i]);
    if (found.position < first.position) first = found;
  }
  return first;
}

std::size_t EmptiesBefore(const Member& member, std::uint64_t position, functions::Function operation) {
  return static_cast<std::size_t>(std::count_if(member.empties.begin(), member.empties.end(), [&](const Call* call) {
    return call->position == position && format::Canonical(call->function) == operation;
  }));
}

// Whether the ring still holds everything between positions p - 1 and p: only then is "no empty call" known.
bool GapKnown(const Member& member, std::uint64_t position) {
  return member.history_whole || (position > 0 && member.At(position - 1) != nullptr);
}

std::size_t EmptiesInGroup(const Member& member, std::uint64_t group, functions::Function operation) {
  return static_cast<std::size_t>(std::count_if(member.empties.begin(), member.empties.end(), [&](const Call* call) {
    return call->group == group && format::Canonical(call->function) == operation;
  }));
}

// `empty` was made by `maker`; the members that made a call with content of the same operation instead.
Side WithContent(const CommView& comm, const Member& maker, const Call& empty) {
  Side side;
  const functions::Function operation = format::Canonical(empty.function);
  for (std::size_t m = 0; m < comm.members.size(); ++m) {
    const Member& member = comm.members[m];
    const Call* call = member.At(empty.position);
    if (call == nullptr || format::Canonical(call->function) != operation) continue;
    if (!GapKnown(member, empty.position) || EmptiesBefore(member, empty.position, operation) > 0) continue;
    // Within a group the order is free: as many empty calls in both groups are the same calls.
    if (empty.group != 0 && call->group != 0 &&
        EmptiesInGroup(member, call->group, operation) == EmptiesInGroup(maker, empty.group, operation)) {
      continue;
    }
    if (side.call == nullptr) side.call = call;
    side.members.push_back(static_cast<int>(m));
  }
  return side;
}

std::optional<Difference> ZeroCountDifference(const View& view, const CommView& comm, std::uint64_t before) {
  std::optional<Difference> first;
  // What has been asked: thousands that make the same empty call would each ask all others.
  std::set<std::tuple<std::uint64_t, functions::Function, std::size_t>> asked;
  for (const Member& maker : comm.members) {
    for (const Call* empty : maker.empties) {
      // The maker's next call takes the position of the empty one: if that differs, the empty one is why.
      if (empty->position > before || (first && empty->position >= first->position)) continue;
      const functions::Function operation = format::Canonical(empty->function);
      const std::size_t in_group = empty->group == 0 ? 0 : EmptiesInGroup(maker, empty->group, operation);
      if (!asked.insert({empty->position, operation, in_group}).second) continue;
      Side content = WithContent(comm, maker, *empty);
      if (content.members.empty()) continue;
      Difference difference;
      difference.position = empty->position;
      difference.zero_count = true;
      Side zero;
      zero.call = empty;
      difference.everybody_arrived = comm.members.size() == comm.size;
      for (std::size_t m = 0; m < comm.members.size(); ++m) {
        const Member& member = comm.members[m];
        if (EmptiesBefore(member, empty->position, operation) > 0) {
          zero.members.push_back(static_cast<int>(m));
        } else if (member.entered <= empty->position && CanStillArrive(view, member)) {
          difference.everybody_arrived = false;
        }
      }
      const Member& other = comm.members[content.members.front()];
      difference.began_ns =
          std::max(view.process(maker).At(empty->entered_ns), view.process(other).At(content.call->entered_ns));
      difference.sides = {std::move(content), std::move(zero)};
      Rank(&difference);
      first = std::move(difference);
    }
  }
  return first;
}

// Nothing that the two have made before is lost, or it agrees: equal chains mean an equal past.
bool AgreeBefore(const Member& a, const Member& b, std::uint64_t position) {
  if (position == 0 || (a.history_whole && b.history_whole)) return true;
  const Call* at_a = a.At(position - 1);
  const Call* at_b = b.At(position - 1);
  return at_a != nullptr && at_b != nullptr && at_a->chain == at_b->chain;
}

}  // namespace

std::optional<Difference> FirstDifference(const View& view, const CommView& comm) {
  if (!comm.comparable || comm.members.size() < 2) return std::nullopt;
  const Found found = FirstDifferentPosition(comm);
  std::optional<Difference> zero = ZeroCountDifference(view, comm, found.position);
  if (zero) {
    zero->surely_first =
        AgreeBefore(comm.members[static_cast<std::size_t>(zero->sides[0].members.front())],
                    comm.members[static_cast<std::size_t>(zero->sides[1].members.front())], zero->position);
    return zero;
  }
  if (found.position == kNone) return std::nullopt;
  Difference difference = Describe(view, comm, found.position);
  if (difference.sides.size() < 2) return std::nullopt;
  Rank(&difference);
  difference.surely_first = found.surely_first;
  return difference;
}

}  // namespace ncclwatch::diagnosis
