#include "analyzer/player/nccl/data.h"

#include "analyzer/player/base/values.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer {

using functions::Pattern;
using player::Listener;

Amounts AmountsOf(const player::Call& call, Pattern pattern, const player::Communicator& on) {
  const std::size_t count = call.as.count, all = count * on.members.size();
  const bool is_root = on.own == call.as.root;
  switch (pattern) {
    case Pattern::kReduceScatter: return {all, count};
    case Pattern::kAllGather: return {count, all};
    case Pattern::kBroadcast: return {is_root ? count : 0, count};
    case Pattern::kReduce: return {count, is_root ? count : 0};
    case Pattern::kSend: return {count, 0};
    case Pattern::kReceive: return {0, count};
    default: return {count, count};
  }
}

std::uint8_t KnownReduction(std::uint8_t reduction) { return reduction == format::kUserReduction ? 0 : reduction; }

Listener::Data CheckArrived(const player::Call& call, const player::Communicator& on, const char* data,
                            std::size_t bytes) {
  const Pattern pattern = functions::PatternOfNccl(call.as.function);
  const std::size_t element = functions::DatatypeBytes(call.as.dtype);
  if (element == 0) return Listener::Data::kNotChecked;
  const std::size_t ranks = on.members.size();
  switch (pattern) {
    case Pattern::kBroadcast: {
      const bool in_place = call.as.function == functions::Function::ncclBcast && on.own == call.as.root;
      return in_place ? Listener::Data::kNotChecked : player::Reported(player::BytesAre(data, bytes, call.as.root));
    }
    case Pattern::kReceive: return player::Reported(player::BytesAre(data, bytes, call.as.root));
    case Pattern::kAllGather:
      for (std::size_t rank = 0; rank < ranks; ++rank)
        if (!player::BytesAre(data + rank * (bytes / ranks), bytes / ranks, static_cast<int>(rank)))
          return Listener::Data::kWrong;
      return Listener::Data::kRight;
    default: break;
  }
  const std::uint64_t first =
      pattern == Pattern::kReduceScatter ? static_cast<std::uint64_t>(on.own) * call.as.count : 0;
  return player::CheckReduced(data, bytes / element, call.as.dtype, KnownReduction(call.as.reduction),
                              static_cast<int>(ranks), first);
}

}  // namespace ncclwatch::analyzer
