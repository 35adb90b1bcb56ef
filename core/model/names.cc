#include <array>

#include "core/model/finding.h"

namespace ncclwatch::diagnosis {
namespace {

template <typename Enum, std::size_t N>
std::string_view At(const std::array<std::string_view, N>& names, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < N ? names[index] : std::string_view("?");
}

}  // namespace

std::string_view Name(Kind kind) {
  static constexpr auto names =
      std::to_array<std::string_view>({"dead_rank",          "early_exit",          "missing_participant",
                                       "order_mismatch",     "argument_mismatch",   "point_to_point_mismatch",
                                       "deadlock",           "initialization_hang", "frozen_process",
                                       "device_stall",       "transport_stall",     "library_error",
                                       "out_of_memory",      "step_mismatch",       "missing_finalize",
                                       "invalid_argument",   "request_error",       "resource_leak",
                                       "epoch_error",        "message_race",        "straggler",
                                       "slow_compute",       "slow_communication",  "regression",
                                       "numeric_fault",      "loss_spike",          "replica_divergence",
                                       "memory_growth",      "not_learning",        "loss_plateau",
                                       "checkpoint_overdue", "starved_input",       "blocking_checkpoint",
                                       "pipeline_bubble",    "environment_skew"});
  return At(names, kind);
}

std::string_view Name(Certainty certainty) {
  static constexpr std::array<std::string_view, 3> names = {"suspected", "likely", "certain"};
  return At(names, certainty);
}

std::string_view Name(CallState state) {
  static constexpr std::array<std::string_view, 7> names = {"not_called", "entered", "returned",    "started",
                                                            "finished",   "failed",  "not_observed"};
  return At(names, state);
}

std::string_view Name(CheckedRule::Result result) {
  static constexpr std::array<std::string_view, 3> names = {"found", "nothing", "skipped"};
  return At(names, result);
}

std::string_view Name(CheckedRule::Covers covers) {
  static constexpr std::array<std::string_view, 3> names = {"all", "part", "none"};
  return At(names, covers);
}

}  // namespace ncclwatch::diagnosis
