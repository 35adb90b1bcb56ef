// Stages of a pipeline that idle: how much of the step, and whether that is for too few micro-batches or for an uneven
// stage. Pure, on numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/steps/step_table.h"

namespace ncclwatch::diagnosis {

struct Bubble {
  std::size_t stages = 0, batches = 0;  // p and m
  std::size_t pipelines = 0;            // side by side
  double idle = 0;                      // share of the step, on average over the stages
  double expected = 0;                  // (p - 1) / (m + p - 1)
  std::vector<std::size_t> rows;        // the ranks of the stage that the others wait for; empty: too few batches
  std::vector<std::size_t> stage_of;    // which stages those are, from 0
  double idle_of_rows = 0;              // the share of theirs
};

// Ranks are stages of a pipeline where each sends to the next one alone (and back), or the last one to the first, and
// all but one of them begin their steps by receiving. None: there is none, it idles for less than `least`, how long
// messages are waited for is not known, or what is missing fits neither.
std::optional<Bubble> FindBubble(const StepTable& table, double least);

}  // namespace ncclwatch::diagnosis
