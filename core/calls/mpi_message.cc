#include "core/calls/mpi_message.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

bool ReceivesAlone(Function function) {
  switch (function) {
    case Function::MPI_Recv:
    case Function::MPI_Irecv:
    case Function::MPI_Recv_init:
    case Function::MPI_Mrecv:
    case Function::MPI_Imrecv: return true;
    default: return false;
  }
}

}  // namespace

bool IsExchange(Function function) {
  const Function small = functions::WithSmallCounts(function);
  return small == Function::MPI_Sendrecv || small == Function::MPI_Sendrecv_replace ||
         small == Function::MPI_Isendrecv || small == Function::MPI_Isendrecv_replace;
}

bool IsSend(const Call& call) {
  if (!functions::IsMpi(call.function) || !functions::IsMessage(call.function)) return false;
  const Function function = functions::WithSmallCounts(call.function);
  return IsExchange(function) ? call.group == call.slot + 1 : !ReceivesAlone(function);
}

bool IsReceive(const Call& call) {
  if (!functions::IsMpi(call.function) || !functions::IsMessage(call.function)) return false;
  // The first record of an exchange, read before it was joined with the second, is neither.
  return !IsSend(call) && !(call.group == 0 && IsExchange(call.function));
}

bool IsSecondHalf(const Call& call) { return IsExchange(call.function) && call.group != 0 && !IsSend(call); }

bool IsMatched(Function function) {
  return functions::WithSmallCounts(function) == Function::MPI_Mrecv ||
         functions::WithSmallCounts(function) == Function::MPI_Imrecv;
}

bool NeverTookPlace(const Call& call) { return (call.flags & format::kCancelled) != 0 && call.completed_ns != 0; }

bool IsOpen(const Call& receive) {
  if ((receive.flags & (format::kForgotten | format::kNoPartner)) != 0 || NeverTookPlace(receive)) return false;
  if (functions::IsProbe(receive.function)) return receive.returned_ns == 0;
  if (receive.position != format::kNotMatched) return false;
  return receive.returned_ns == 0 || ((receive.flags & format::kRequest) != 0 && receive.completed_ns == 0);
}

bool Takes(const Call& receive, std::uint32_t sender, std::int32_t tag) {
  const bool from = (receive.flags & format::kAnySource) != 0 || receive.root == static_cast<std::int32_t>(sender);
  return from && ((receive.flags & format::kAnyTag) != 0 || receive.tag == tag);
}

}  // namespace ncclwatch::diagnosis
