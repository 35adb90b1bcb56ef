// Faults of sends and receives: one without its partner, one of another size.
#include <fmt/core.h>

#include <algorithm>

#include "tests/jobs/simulator/fault.h"

namespace ncclwatch::jobs {
namespace {

std::optional<Spot> AnyMessage(Draft* draft) {
  draft->job().exchanges = true;  // where the topology sends nothing
  return draft->Find([](const Op& op) { return IsMessage(op) && op.count > 1; }, false, true);
}

// Its partner waits for it, or rather for the last of the pair. The rank itself waits for its partner a little later,
// in a collective: nobody can tell from the calls whether the message was forgotten or was to come after that.
bool MessageMissing(Draft* draft) {
  const std::optional<Spot> spot = AnyMessage(draft);
  if (!spot) return false;
  const std::vector<int> both = BothSides(*draft, *spot);
  if (both.size() < 2) return false;
  draft->Change(spot->rank,
                {.how = Edit::How::kReplace, .section = spot->section, .index = spot->index, .ops = {Nothing()}});
  draft->look = Look::kAfterStall;
  // They do wait for one another; where everything has been launched that can be proven. Where sizes differ from
  // message to message, the shift of those that follow proves it.
  const bool sizes_differ = draft->job().shape.topology == "expert";
  draft->cycle = true;
  draft->truth().answers = {{"point_to_point_mismatch", {spot->rank}, both, sizes_differ}, {"deadlock", both, {}}};
  draft->truth().story = fmt::format("rank {} leaves out a message", spot->rank);
  return true;
}

bool MessageSize(Draft* draft) {
  const std::optional<Spot> spot = AnyMessage(draft);
  if (!spot) return false;
  Op wrong = Planted(spot->op);
  wrong.count = draft->dice.OneIn(2) ? wrong.count * 2 : wrong.count / 2;
  draft->Change(spot->rank,
                {.how = Edit::How::kReplace, .section = spot->section, .index = spot->index, .ops = {wrong}});
  constexpr Job::Differ kWays[] = {Job::Differ::kHang, Job::Differ::kPass};
  draft->job().differ = draft->dice.Of(kWays, 2);
  draft->look = Look::kAfterStall;
  draft->truth().answers = {{"point_to_point_mismatch", {spot->rank}, BothSides(*draft, *spot)}};
  draft->truth().story = fmt::format("rank {} gives a message another size", spot->rank);
  return true;
}

}  // namespace

const std::vector<Fault> kMessageFaults = {
    {"message_missing", MessageMissing},
    {"message_size", MessageSize},
};

}  // namespace ncclwatch::jobs
