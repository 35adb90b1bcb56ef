#include "analyzer/attach/step.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "watchdog/cpython/origin.h"

namespace ncclwatch::analyzer::attach {
namespace {

using stacks::Frame;

// In falling order: what counts all steps, what counts those of an epoch, what may count anything.
constexpr std::array<std::string_view, 20> kSteps = {
    "global_step", "iteration", "iter_num", "step", "cur_step", "current_step", "step_idx",   "batch_idx",
    "batch_index", "batch_id",  "iter_idx", "it",   "iter",     "batch_num",    "micro_step", "batch",
    "idx",         "i",         "n",        "t"};
constexpr std::array<std::string_view, 5> kEpochs = {"epoch", "current_epoch", "cur_epoch", "epoch_idx", "epoch_num"};

using Number = Frame::Variable;

// From here on in kSteps. In native code `n` is as likely the size of a rank's part, and `i` is left from another loop.
constexpr std::size_t kVague = 15;

// Variables of native frames are only read of the program.
bool IsFrom(const Frame& frame, cpython::Origin origin) {
  return frame.kind == Frame::Kind::kPython ? cpython::OriginOf(frame.file) == origin
                                            : origin == cpython::Origin::kProgram;
}

// Of equally good names the outermost frame's: loops further in are those of the model.
template <std::size_t n>
const Number* Best(const stacks::Thread& thread, cpython::Origin origin, const std::array<std::string_view, n>& names) {
  const Number* best = nullptr;
  std::size_t likeness = n;
  for (const Frame& frame : thread.frames) {
    if (!IsFrom(frame, origin)) continue;
    for (const Number& number : frame.numbers) {
      const auto at = static_cast<std::size_t>(std::find(names.begin(), names.end(), number.name) - names.begin());
      if (frame.kind == Frame::Kind::kNative && at >= kVague) continue;
      if (at < n && at <= likeness && number.value >= 0) best = &number, likeness = at;
    }
  }
  return best;
}

}  // namespace

Step StepOf(const stacks::Thread& thread) {
  for (const cpython::Origin origin : {cpython::Origin::kProgram, cpython::Origin::kPackage}) {
    const Number* const step = Best(thread, origin, kSteps);
    const Number* const epoch = Best(thread, origin, kEpochs);
    if (step == nullptr && epoch == nullptr) continue;
    Step found;
    if (epoch != nullptr) found.text = fmt::format("{} {}", epoch->name, epoch->value);
    if (step == nullptr) return found;
    found.number = step->value;
    found.text += fmt::format("{}{} {}", found.text.empty() ? "" : ", ", step->name, step->value);
    return found;
  }
  return {};
}

}  // namespace ncclwatch::analyzer::attach
