// Roll calls of several nodes, joined at one of them.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/attach/roll_call.h"

namespace ncclwatch::analyzer::attach {

enum class Met {
  kAlone,   // nobody could be met; `why` says why
  kMember,  // told to the one at the meeting place, which prints the verdict
  kJoined   // this is the meeting place: *call and *job hold what the others have seen as well
};

// `named`: HOST:PORT. Whoever has the address of HOST is the meeting place. Waits until all ranks have been called, at
// most `wait_ns`. Those who meet prove the token of their job (docs/EXCHANGE.md).
Met Meet(const std::string& named, std::int64_t wait_ns, RunningJob* job, RollCall* call, std::string* why);

}  // namespace ncclwatch::analyzer::attach
