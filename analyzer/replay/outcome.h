// What came of a simulated replay: how far each rank came, and the images that its processes' black boxes would be.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/replay/program.h"
#include "analyzer/replay/stopped.h"
#include "core/reader/box.h"
#include "simulation/world.h"

namespace ncclwatch::analyzer {

struct Outcome {
  bool completed = false;
  std::uint64_t calls = 0;                        // that were made
  std::vector<StoppedCall> stopped;               // what each rank is still in, or what its GPU never ends
  std::int64_t simulated_ns = 0;                  // from the first call to the last end
  std::int64_t recorded_ns = 0;                   // likewise
  reader::RunImage run;                           // boxes with the newest calls, as a diagnosis takes them
  std::vector<reader::Observation> observations;  // of processes that ended, or stood still, in the recording
};

// Takes a rank with all its calls; those before slot `end` will not be in the outcome.
using OlderCalls = std::function<void(const reader::BoxImage& image, std::uint64_t end)>;

// Reads the recording's pieces once more.
Outcome OutcomeOf(const Recording& recording, const RecordedProgram& program, const simulation::World& world,
                  std::size_t newest_calls, const OlderCalls& older = nullptr);

}  // namespace ncclwatch::analyzer
