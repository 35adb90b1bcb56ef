// What job_matrix can do. Each prints a table and returns an exit status.
#pragma once

#include "tests/jobs/options.h"

namespace ncclwatch::jobs {

// Every fault on every topology.
int RunMatrix(const Options& options);
// Jobs without a fault, looked at at any instant: nothing may be found.
int RunHealthy(const Options& options);
// A fifth of the boxes missing, others cut or torn: nothing wrong may be called certain.
int RunRemoved(const Options& options);
// Wrong peers, sizes, communicators and numbers of messages, in patterns of messages: who is named, and alone.
int RunPeers(const Options& options);
// Images that keep only the newest calls: the verdict must be the one of all calls.
int RunSifted(const Options& options);
// Slow jobs: precision, recall and the step of what slows each.
int RunSlow(const Options& options);
// Slow parts of the machine: the same answer from boxes, live, and from lines of NCCL Inspector.
int RunParts(const Options& options);
// Hours of healthy jobs as a leader looks at them: how often it would say something.
int RunQuiet(const Options& options);
// The loops that people write: where their steps begin.
int RunLoops(const Options& options);
// Boxes of many ranks: the time of a verdict against that of reading the files, and the memory.
int RunScale(const Options& options, const char* self);
// The part of it that is measured, in a process of its own: boxes in a folder.
int RunTimed(const Options& options);

}  // namespace ncclwatch::jobs
