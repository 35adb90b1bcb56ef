// Boxes as they were at an earlier instant: what the dead have written since, and what happened after a verdict, must
// not change it.
#pragma once

#include "core/model/snapshot.h"

namespace ncclwatch::diagnosis {

// Takes back what the box says about the time after box_now_ns (on the box's own clock): calls, counts, goodbyes, last
// words. Marks and peer counts of wrapped-over calls carry no time and stay.
void RollBack(std::int64_t box_now_ns, reader::BoxImage* box);

// Every box of the snapshot as of its now_ns.
void RollBack(Snapshot* snapshot);

// Some box goes on after now_ns: its image was taken later.
bool TellsOfLater(const Snapshot& snapshot);

// The whole snapshot as of now_ns, without later observations.
Snapshot AsOf(const Snapshot& snapshot, std::int64_t now_ns);

}  // namespace ncclwatch::diagnosis
