// NCCLWATCH_ON_FAULT=abort: ending this process, and those that cannot end themselves.
#pragma once

#include "ncclwatch/format/black_box.h"

namespace ncclwatch::act {

inline constexpr int kEndedByUs = 86;

// Says so in the box's last words and ends the process at once, with status 86, past every handler of the host.
[[noreturn]] void EndOwnProcess(format::Header* own);

// SIGKILL, also for a stopped process; the pidfd makes sure that it is the one meant.
void Kill(int pidfd);

}  // namespace ncclwatch::act
