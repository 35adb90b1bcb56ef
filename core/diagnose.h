// The one pure function behind every verdict, live and offline: boxes and observations in, findings out. No clock, no
// thread, no environment, and no file but the rest of a box whose image was sifted (reader/left_out.h); a live leader's
// images never are. Thread-safe.
#pragma once

#include "core/model/finding.h"
#include "core/model/snapshot.h"

namespace ncclwatch::diagnosis {

// Live: append observations first, then take now_ns, then the images. What an image says about the time after now_ns is
// taken back, so that the verdict and the one that is read off the boxes later are the same.
Diagnosis Diagnose(const Snapshot& snapshot);

}  // namespace ncclwatch::diagnosis
