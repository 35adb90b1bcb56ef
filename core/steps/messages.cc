#include "core/steps/messages.h"

#include <algorithm>

#include "core/calls/mpi_message.h"
#include "core/steps/step_join.h"
#include "core/steps/steps.h"

namespace ncclwatch::diagnosis {
namespace {

bool Sends(const reader::Call& call) {
  return functions::IsMpi(call.function) ? IsSend(call) : call.function == functions::Function::ncclSend;
}

}  // namespace

MessageUnit MessageGrouper::Add(const reader::Call& call, std::size_t step, std::size_t peer) {
  const std::uint64_t id = call.group != 0 ? call.group : call.slot + 1;
  MessageUnit ended;
  if (open_.id != id) {
    ended = End();
    open_.id = id;
    open_.step = step;
    open_.first = call;
  }
  const bool sends = Sends(call);
  ++(sends ? open_.sends : open_.receives);
  if (peer != SIZE_MAX) (sends ? open_.to : open_.from).push_back(peer);
  open_.bytes = std::max(open_.bytes, BytesOf(call));
  open_.position = std::max(open_.position, call.position);
  open_.kernel_ns = std::max(open_.kernel_ns, KernelNs(call));
  return ended;
}

void StepMessageSum::Add(const MessageUnit& unit) {
  if (first == First::kNone)
    first = unit.receives == 0 ? First::kSend : unit.sends == 0 ? First::kReceive : First::kBoth;
  for (const std::size_t to : unit.to) ++sent[to];
  Kernels& alike = kernels[unit.bytes];
  ++alike.units;
  if (unit.kernel_ns < 0) return;
  alike.least_ns = alike.timed == 0 ? unit.kernel_ns : std::min(alike.least_ns, unit.kernel_ns);
  ++alike.timed;
  alike.ns += unit.kernel_ns;
}

void MessageCounter::Count(std::size_t row, const StepMessageSum& step) {
  StepMessages& own = of_row_[row];
  for (const auto& [to, count] : step.sent) own.sent[to] += count;
  own.sends_first += step.first == StepMessageSum::First::kSend;
  own.receives_first += step.first == StepMessageSum::First::kReceive;
  for (const auto& [bytes, one] : step.kernels) {
    StepMessageSum::Kernels& waits = waits_[{row, bytes}];
    waits.units += one.units;
    waits.timed += one.timed;
    waits.ns += one.ns;
    if (one.timed == 0) continue;
    const auto [least, made] = least_ns_.try_emplace(bytes, one.least_ns);
    least->second = std::min(least->second, one.least_ns);
  }
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
