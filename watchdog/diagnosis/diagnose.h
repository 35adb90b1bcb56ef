// The one pure function behind every verdict, live and offline: boxes and observations in, findings out. No clock, no
// thread, no environment, and no file but the rest of a box whose image was sifted (reader/left_out.h); a live leader's
// images never are. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "watchdog/diagnosis/finding.h"
#include "watchdog/reader/image.h"
#include "watchdog/reader/stacks.h"
#include "watchdog/reader/witness.h"

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
  std::vector<reader::ProcessStacks> stacks;      // taken for the verdict of now_ns (reader::VerdictStacks)
};

// The snapshot that the boxes themselves tell: observations and limits of the last leader; now is the instant of the
// standing verdict if there is one, else the last sign of life. What the boxes say about later times is taken back.
// `visitor`: what the caller sees of the processes itself (Observed::kGone of a box whose lock is free and whose
// process is gone); it fills in where no leader lived to observe it. `witness`: who stood by as they ended.
Snapshot FromBoxes(std::vector<reader::BoxImage> boxes, const std::vector<reader::Observation>& visitor = {},
                   const reader::Witness& witness = {});

// Fills in the observations that the snapshot's boxes hold, on the clock of its boot_id, up to its now_ns.
void GatherObservations(Snapshot* snapshot);

// Live: append observations first, then take now_ns, then the images. What an image says about the time after now_ns is
// taken back, so that the verdict and the one that is read off the boxes later are the same.
Diagnosis Diagnose(const Snapshot& snapshot);

std::string ToJson(const Diagnosis& diagnosis);  // ncclwatch.diagnosis/1, indented, ends with a newline
std::string ToText(const Diagnosis& diagnosis);  // for a person and a terminal of 100 columns, without colour

}  // namespace ncclwatch::diagnosis
