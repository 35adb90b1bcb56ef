#include "watchdog/diagnosis/steps/messages.h"

#include <algorithm>
#include <utility>

#include "watchdog/diagnosis/calls/mpi_message.h"
#include "watchdog/diagnosis/steps/step_join.h"
#include "watchdog/diagnosis/view/view.h"

namespace ncclwatch::diagnosis {
namespace {

bool Sends(const reader::Call& call) {
  return functions::IsMpi(call.function) ? IsSend(call) : call.function == functions::Function::ncclSend;
}

}  // namespace

MessageUnit MessageCounter::Add(const reader::Call& call, std::size_t row, std::size_t step, std::size_t peer) {
  const std::uint64_t id = call.group != 0 ? call.group : call.slot + 1;
  MessageUnit ended;
  if (open_.row != row || open_.id != id) {
    ended = End();
    open_.row = row;
    open_.step = step;
    open_.id = id;
    open_.first = &call;
  }
  const bool sends = Sends(call);
  ++(sends ? open_.sends : open_.receives);
  if (peer != SIZE_MAX) (sends ? open_.to : open_.from).push_back(peer);
  open_.bytes = std::max(open_.bytes, BytesOf(call));
  open_.position = std::max(open_.position, call.position);
  open_.kernel_ns = std::max(open_.kernel_ns, KernelNs(call));
  return ended;
}

MessageUnit MessageCounter::End() { return std::exchange(open_, MessageUnit()); }

void MessageCounter::Count(const MessageUnit& unit) {
  StepMessages& own = of_row_[unit.row];
  for (const std::size_t to : unit.to) ++own.sent[to];
  if (const std::pair at(unit.row, unit.step); std::exchange(begun_, at) != at) {
    if (unit.receives == 0) ++own.sends_first;
    if (unit.sends == 0) ++own.receives_first;
  }
  Waits& waits = waits_[{unit.row, unit.bytes}];
  ++waits.units;
  if (unit.kernel_ns < 0) return;
  ++waits.timed;
  waits.ns += unit.kernel_ns;
  const auto [least, made] = least_ns_.try_emplace(unit.bytes, unit.kernel_ns);
  least->second = std::min(least->second, unit.kernel_ns);
}

std::vector<StepMessages> MessageCounter::Take(std::size_t rows) {
  std::vector<StepMessages> all(rows);
  for (auto& [row, own] : of_row_) all[row] = std::move(own);
  for (const auto& [at, waits] : waits_) {
    if (waits.timed == 0) continue;
    const double each =
        static_cast<double>(waits.ns) / static_cast<double>(waits.timed) - static_cast<double>(least_ns_.at(at.second));
    all[at.first].wait_ns += static_cast<std::int64_t>(each * static_cast<double>(waits.units));
    all[at.first].timed = true;
  }
  return all;
}

}  // namespace ncclwatch::diagnosis
