// The two halves of recording a call, around the real one. No allocation, lock, system call or exception on the way of
// collectives and point-to-point calls, but for what a GPU mark costs.
#pragma once

#include "shim/base/thread.h"
#include "shim/black_box/box.h"
#include "shim/black_box/call.h"

namespace ncclwatch::shim {

void EnterCollective(Box& box, Thread& thread, Call& call);
void EnterPointToPoint(Box& box, Thread& thread, Call& call);
// Of both of them.
void LeaveOperation(Box& box, Thread& thread, Call& call, int result);

// Groups, creations and everything else.
void EnterOther(Box& box, Thread& thread, Call& call);
void LeaveOther(Box& box, Thread& thread, Call& call, int result);

}  // namespace ncclwatch::shim
