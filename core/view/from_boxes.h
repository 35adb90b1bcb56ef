// Snapshots from boxes alone, without a leader that looks at their processes.
#pragma once

#include <vector>

#include "core/model/snapshot.h"

namespace ncclwatch::diagnosis {

// The snapshot that the boxes themselves tell: observations and limits of the last leader; now is the instant of the
// standing verdict if there is one, else the last sign of life. What the boxes say about later times is taken back.
// `visitor`: what the caller sees of the processes itself (Observed::kGone of a box whose lock is free and whose
// process is gone); it fills in where no leader lived to observe it. `witness`: who stood by as they ended.
Snapshot FromBoxes(std::vector<reader::BoxImage> boxes, const std::vector<reader::Observation>& visitor = {},
                   const reader::Witness& witness = {});

// Fills in the observations that the snapshot's boxes hold, on the clock of its boot_id, up to its now_ns.
void GatherObservations(Snapshot* snapshot);

}  // namespace ncclwatch::diagnosis
