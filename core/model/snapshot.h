// What a diagnosis is made from: boxes, observations and the instant that is judged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/ignore.h"
#include "core/reader/beside/machine.h"
#include "core/reader/beside/meanwhile.h"
#include "core/reader/image.h"
#include "core/reader/stacks.h"
#include "core/reader/witness.h"

namespace ncclwatch::diagnosis {

struct Limits {
  std::int64_t suspect_after_ns = 10'000'000'000;  // no progress for this long: suspected
  std::int64_t likely_after_ns = 60'000'000'000;   // ... likely
};

struct Snapshot {
  std::int64_t now_ns = 0;  // CLOCK_MONOTONIC: the instant that is judged
  std::string boot_id;      // of the node whose clock now_ns is; empty: that of the first box
  Limits limits;
  std::vector<reader::BoxImage> boxes;
  std::vector<reader::Observation> observations;  // of all leaders, in order of time
  reader::Witness ends;                           // as `ncclwatch run` saw them; its observations are above too
  std::vector<std::string> notes;                 // unreadable files and the like, passed through
  std::vector<std::string> missing;               // likewise: what could show a fault and was not there
  std::vector<reader::Meanwhile> meanwhile;       // what stragglers did while the others waited for them
  std::vector<reader::MachineSample> machines;    // what went wrong with them meanwhile
  std::vector<IgnoreLine> ignore;                 // findings to leave out
  std::vector<reader::ProcessStacks> stacks;      // taken for the verdict of now_ns (reader::VerdictStacks)
};

}  // namespace ncclwatch::diagnosis
