// In place of the Redis node where there is no hiredis to build with (for another processor).
#include "watchdog/exchange/node.h"

namespace ncclwatch::exchange {

std::unique_ptr<Node> MakeRedisNode(const Setup&, Loop*, Mailbox*, std::string* why) {
  if (why) *why = "this build has no Redis";
  return nullptr;
}

}  // namespace ncclwatch::exchange
