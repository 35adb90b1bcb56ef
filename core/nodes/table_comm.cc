#include "core/nodes/table_comm.h"

#include <algorithm>

namespace ncclwatch::nodes {

using format::CommunicatorState;
using What = diagnosis::LiveCompare::What;

namespace {

constexpr std::size_t kChecks = 64;  // positions of one communicator that are remembered

}  // namespace

bool Counts(const MemberRow& row) {
  const CommunicatorState state = row.now.state;
  return state == CommunicatorState::kInitializing || state == CommunicatorState::kReady ||
         state == CommunicatorState::kFinalizing;
}

bool Pending(const MemberRow& row) { return row.now.outstanding || row.now.returned < row.now.entered; }

void Table::Comm::Compare(const Check& check) {
  const auto known =
      std::find_if(checks.begin(), checks.end(), [&](const Check& other) { return other.position == check.position; });
  if (known != checks.end()) {
    // The call before that position is the last one that may differ.
    if (known->chain != check.chain) Differs(What::kDifferentCall, check.position - 1);
    return;
  }
  if (checks.size() < kChecks) {
    checks.push_back(check);
    return;
  }
  const auto oldest = std::min_element(checks.begin(), checks.end(),
                                       [](const Check& a, const Check& b) { return a.position < b.position; });
  if (oldest->position < check.position) *oldest = check;
}

// A call with content that somebody is in, where another one, a position behind, has made more empty calls: NCCL skips
// those without a word.
void Table::Comm::LookForEmpties() {
  std::uint64_t fewest = UINT64_MAX, most = 0;
  for (const Ref& ref : refs) {
    if (!Counts(*ref.member)) continue;
    fewest = std::min(fewest, ref.member->now.empties);
    most = std::max(most, ref.member->now.empties);
  }
  if (fewest >= most) return;
  for (const Ref& in : refs) {
    if (!Counts(*in.member) || !Pending(*in.member) || in.member->now.entered == 0) continue;
    for (const Ref& behind : refs) {
      if (Counts(*behind.member) && behind.member->now.empties > in.member->now.empties &&
          behind.member->now.entered + 1 == in.member->now.entered)
        return Differs(What::kZeroCount, behind.member->now.entered);
    }
  }
}

void Table::Comm::Look() {
  moved = false;
  front = {id, size, 0, 0, 0, 0, 0, UINT64_MAX, 0, changed_ns};
  for (const Ref& ref : refs) {
    const MemberRow& row = *ref.member;
    if (!Counts(row)) continue;
    ++front.members;
    front.initializing += row.now.state == CommunicatorState::kInitializing ? 1 : 0;
    front.ready += row.now.state == CommunicatorState::kReady ? 1 : 0;
    front.pending += Pending(row) ? 1 : 0;
    front.behind = std::min(front.behind, row.now.entered);
    if (row.now.entered > front.ahead) {
      front.ahead = row.now.entered;
      front.arrived = 0;
    }
    front.arrived += row.now.entered == front.ahead ? 1 : 0;
  }
  if (front.members == 0) front.behind = 0;
  LookForEmpties();
}

}  // namespace ncclwatch::nodes
