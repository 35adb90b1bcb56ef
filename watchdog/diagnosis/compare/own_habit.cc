#include "watchdog/diagnosis/compare/own_habit.h"

#include <unordered_map>

#include "ncclwatch/format/fingerprint.h"
#include "watchdog/diagnosis/compare/steps.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;
using CommByKey = std::unordered_map<std::uint64_t, int>;

CommByKey CommsOf(const View& view, const Node& node) {
  CommByKey comms;
  for (const auto& at : node.memberships) {
    const Member& member = view.member(at);
    comms[KeyOf(member.comm->index, member.comm->generation)] = at.first;
  }
  return comms;
}

// With whom, on what; sizes and types are asked about apart. Where a receive from anybody took its message from is not
// its caller's doing.
std::uint64_t ShapeOf(const Call& call) {
  if (!IsMessage(call)) return format::Fingerprint(call.function, 0, call.dtype, call.reduction, call.root, 0);
  const bool any_source = (call.flags & format::kAnySource) != 0, any_tag = (call.flags & format::kAnyTag) != 0;
  const auto tag = static_cast<std::uint64_t>(any_tag ? format::kNoTag : call.tag);
  return format::Fingerprint(call.function, tag, format::kNoType, format::kNoReduction,
                             any_source ? format::kNoRank : call.root, 0);
}

CallOn On(const CommByKey& comms, const Call& call) {
  return {call, comms.at(KeyOf(call.communicator, call.generation))};
}

OwnBreak BreakOf(const History& history, const CommByKey& comms, const Habit& habit, const Break& found) {
  OwnBreak own;
  own.how = found.how;
  own.steps = found.steps;
  own.in_last_step = found.at + habit.length >= history.calls.size();
  if (found.how != Break::How::kLeftOut) own.made = On(comms, *history.calls[found.at]);
  if (found.how != Break::How::kExtra) own.usual = On(comms, *history.calls[found.usual]);
  if (found.how == Break::How::kExchanged) own.other = On(comms, *history.calls[found.other]);
  return own;
}

}  // namespace

OwnHabit HabitOf(const View& view, const Node& node) {
  const History history = HistoryOf(view, node);
  const CommByKey comms = CommsOf(view, node);
  std::vector<Symbol> symbols(history.calls.size());
  std::vector<std::uint64_t> sizes(history.calls.size(), 0);
  for (std::size_t i = 0; i < history.calls.size(); ++i) {
    const Call& call = *history.calls[i];
    const int comm = comms.at(KeyOf(call.communicator, call.generation));
    symbols[i].call = format::Mix(view.comms[static_cast<std::size_t>(comm)].id, ShapeOf(call));
    symbols[i].message = IsMessage(call);
    if (IsMessage(call)) sizes[i] = functions::IsMpi(call.function) ? call.bytes : BytesOf(call);
  }
  OwnHabit own;
  const std::optional<Habit> habit = FindHabit(symbols, sizes);
  if (!habit) return own;
  own.steps = habit->steps;
  for (const Break& found : habit->breaks) own.breaks.push_back(BreakOf(history, comms, *habit, found));
  return own;
}

}  // namespace ncclwatch::diagnosis
