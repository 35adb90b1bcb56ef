#include "analyzer/recording/meeting.h"

#include "core/calls/mpi_message.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Function;
using reader::Call;

struct Ends {
  std::uint32_t from, to;
};
// Ranks in the communicator; none if it is no message that has met its partner.
std::optional<Ends> EndsOf(const Call& call, const reader::Communicator& on) {
  if (call.root < 0 || call.position == format::kNotMatched || (call.flags & format::kNoPartner) != 0) return {};
  const auto peer = static_cast<std::uint32_t>(call.root);
  if (call.function == Function::ncclSend || diagnosis::IsSend(call)) return Ends{on.rank, peer};
  if (call.function == Function::ncclRecv || diagnosis::IsReceive(call)) return Ends{peer, on.rank};
  return {};
}

}  // namespace

std::optional<MeetingKey> MeetingOf(const reader::Communicator& on, const Call& call) {
  if (on.size < 2 || (call.flags & format::kEmpty) != 0 || (on.flags & format::kCommIdentityUnknown) != 0) return {};
  if (functions::IsCollective(call.function)) return MeetingKey{on.id, call.position, 0, 0};
  if (!functions::IsMessage(call.function)) return {};
  const std::optional<Ends> ends = EndsOf(call, on);
  if (!ends) return {};
  return MeetingKey{on.id, call.position, ends->from + 1, ends->to + 1};
}

}  // namespace ncclwatch::analyzer
