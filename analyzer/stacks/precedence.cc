#include "analyzer/stacks/precedence.h"

#include <sys/resource.h>

namespace ncclwatch::stacks {

void TakePrecedence() {
  constexpr int kNice = -10;
  // Linux: of the calling thread.
  if (getpriority(PRIO_PROCESS, 0) > kNice) setpriority(PRIO_PROCESS, 0, kNice);
}

}  // namespace ncclwatch::stacks
