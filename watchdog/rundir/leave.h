// A job that ended well leaves nothing: whichever process of it ends last removes its run directory. "Well" is what the
// black boxes say: every one of them is of a process that has ended with status 0, by itself and without a fatal
// signal or a wrong call of MPI; all ranks of this node have been there; and nothing else lies there, above all no
// diagnosis. What is not so is kept (sweep.h).
//
// Several may end at the same instant: each notes its end before it looks at the others, so that at least one sees all
// of them ended, and the exclusive lock on the directory (hold.h) lets one alone go on. A process that is being
// watched anew in it holds the shared lock.
#pragma once

#include <string>

#include "ncclwatch/format/black_box.h"

namespace ncclwatch::rundir {

// Told at the start of the process, once; without it LeaveIfLast() does nothing. `top`: of the job, `directory`: where
// `box` lies, its file's name.
void PrepareToLeave(const std::string& top, const std::string& directory, const std::string& box,
                    const format::Header* own);

// At the end of the process, once its box says so. Async-signal-safe: _exit() may be called in a handler.
void LeaveIfLast();

}  // namespace ncclwatch::rundir
