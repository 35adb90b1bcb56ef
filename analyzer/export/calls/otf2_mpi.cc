#include "analyzer/export/calls/otf2_mpi.h"

#include <iterator>
#include <optional>

#include "core/calls/mpi_message.h"
#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::analyzer::exporting {
namespace {

using functions::Function;
using functions::Pattern;
using reader::Call;

// From MPI_Barrier on, as functions::PatternOfMpi.
constexpr OTF2_CollectiveOp kCollectives[] = {OTF2_COLLECTIVE_OP_BARRIER,
                                              OTF2_COLLECTIVE_OP_BCAST,
                                              OTF2_COLLECTIVE_OP_REDUCE,
                                              OTF2_COLLECTIVE_OP_ALLREDUCE,
                                              OTF2_COLLECTIVE_OP_SCAN,
                                              OTF2_COLLECTIVE_OP_EXSCAN,
                                              OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK,
                                              OTF2_COLLECTIVE_OP_REDUCE_SCATTER,
                                              OTF2_COLLECTIVE_OP_GATHER,
                                              OTF2_COLLECTIVE_OP_SCATTER,
                                              OTF2_COLLECTIVE_OP_GATHERV,
                                              OTF2_COLLECTIVE_OP_SCATTERV,
                                              OTF2_COLLECTIVE_OP_ALLGATHER,
                                              OTF2_COLLECTIVE_OP_ALLTOALL,
                                              OTF2_COLLECTIVE_OP_ALLGATHERV,
                                              OTF2_COLLECTIVE_OP_ALLTOALLV,
                                              OTF2_COLLECTIVE_OP_ALLTOALLW};

std::optional<OTF2_CollectiveOp> CollectiveOpOf(Function function) {
  const auto place = static_cast<std::uint32_t>(functions::BlockingOfMpi(function)) -
                     static_cast<std::uint32_t>(Function::MPI_Barrier);
  return place < std::size(kCollectives) ? std::optional(kCollectives[place]) : std::nullopt;
}

// What this rank sends and receives in it.
struct Sizes {
  std::uint64_t sent = 0, received = 0;
};
Sizes SizesOf(const Call& call, std::uint32_t rank, std::uint64_t size) {
  const std::uint64_t bytes = call.bytes;
  const bool root = call.root == static_cast<std::int32_t>(rank);
  if ((call.flags & format::kHasParts) != 0) return {bytes, bytes};
  switch (functions::PatternOfMpi(call.function)) {
    case Pattern::kBarrier: return {};
    case Pattern::kBroadcast: return root ? Sizes{bytes, 0} : Sizes{0, bytes};
    case Pattern::kReduce: return {bytes, root ? bytes : 0};
    case Pattern::kGather: return {bytes, root ? bytes * size : 0};
    case Pattern::kScatter: return {root ? bytes * size : 0, bytes};
    case Pattern::kAllGather: return {bytes, bytes * size};
    case Pattern::kAllToAll: return {bytes * size, bytes * size};
    case Pattern::kReduceScatter: return {bytes * size, bytes};
    default: return {bytes, bytes};
  }
}

bool HasRequest(const Call& call) { return (call.flags & format::kRequest) != 0; }

bool Moves(const Call& call) {
  constexpr std::uint32_t kNothing = format::kNoPartner | format::kCancelled;
  const bool only_prepares =
      functions::FullName(call.function).find("_init") != std::string_view::npos && !HasRequest(call);
  const bool refused = call.returned_ns != 0 && call.result != 0 && (call.flags & format::kTookPart) == 0;
  return functions::IsMpi(call.function) && (call.flags & kNothing) == 0 && !only_prepares && !refused &&
         (functions::IsMessage(call.function) || CollectiveOpOf(call.function));
}

std::uint32_t TagOf(const Call& call) { return call.tag < 0 ? 0 : static_cast<std::uint32_t>(call.tag); }

std::uint64_t One(OTF2_ErrorCode written) { return written == OTF2_SUCCESS ? 1 : 0; }

}  // namespace

bool Otf2Mpi::TransferOf(const MergedCall& merged, Transfer* transfer) const {
  if (!merged.communicator) return false;
  const auto known = communicators_.Of(merged.communicator->id);
  if (!known) return false;
  *transfer = {*known, merged.communicator->rank, merged.communicator->size, merged.call};
  return true;
}

std::uint64_t Otf2Mpi::Enter(OTF2_EvtWriter* to, OTF2_TimeStamp time, const MergedCall& merged) {
  const Call& call = merged.call;
  if (!Moves(call)) return 0;
  Transfer transfer;
  if (!TransferOf(merged, &transfer)) {
    ++not_named_;
    return 0;
  }
  const bool sends = diagnosis::IsSend(call);
  if (HasRequest(call) && call.completed_ns != 0 && call.waiter != 0)
    waited_for_[{merged.number, call.waiter - 1}].push_back(transfer);
  if (sends && call.root >= 0) {
    const auto peer = static_cast<std::uint32_t>(call.root);
    return One(HasRequest(call)
                   ? OTF2_EvtWriter_MpiIsend(to, nullptr, time, peer, transfer.communicator, TagOf(call), call.bytes,
                                             call.slot)
                   : OTF2_EvtWriter_MpiSend(to, nullptr, time, peer, transfer.communicator, TagOf(call), call.bytes));
  }
  if (functions::IsMessage(call.function))
    return HasRequest(call) ? One(OTF2_EvtWriter_MpiIrecvRequest(to, nullptr, time, call.slot)) : 0;
  return One(HasRequest(call) ? OTF2_EvtWriter_NonBlockingCollectiveRequest(to, nullptr, time, call.slot)
                              : OTF2_EvtWriter_MpiCollectiveBegin(to, nullptr, time));
}

// Of a message, a receive or a collective that is over by now.
std::uint64_t Otf2Mpi::End(OTF2_EvtWriter* to, OTF2_TimeStamp time, const Transfer& transfer) {
  const Call& call = transfer.call;
  if (const auto collective = CollectiveOpOf(call.function)) {
    const auto root = call.root < 0 ? OTF2_COLLECTIVE_ROOT_NONE : static_cast<std::uint32_t>(call.root);
    const Sizes sizes = SizesOf(call, transfer.rank, transfer.size);
    return One(HasRequest(call)
                   ? OTF2_EvtWriter_NonBlockingCollectiveComplete(to, nullptr, time, *collective, transfer.communicator,
                                                                  root, sizes.sent, sizes.received, call.slot)
                   : OTF2_EvtWriter_MpiCollectiveEnd(to, nullptr, time, *collective, transfer.communicator, root,
                                                     sizes.sent, sizes.received));
  }
  if (diagnosis::IsSend(call))
    return HasRequest(call) ? One(OTF2_EvtWriter_MpiIsendComplete(to, nullptr, time, call.slot)) : 0;
  if (call.root < 0) return 0;
  const auto peer = static_cast<std::uint32_t>(call.root);
  return One(
      HasRequest(call)
          ? OTF2_EvtWriter_MpiIrecv(to, nullptr, time, peer, transfer.communicator, TagOf(call), call.bytes, call.slot)
          : OTF2_EvtWriter_MpiRecv(to, nullptr, time, peer, transfer.communicator, TagOf(call), call.bytes));
}

std::uint64_t Otf2Mpi::Leave(OTF2_EvtWriter* to, OTF2_TimeStamp time, const MergedCall& merged) {
  const Call& call = merged.call;
  std::uint64_t records = 0;
  if (const auto waited = waited_for_.find({merged.number, call.slot}); waited != waited_for_.end()) {
    for (const Transfer& transfer : waited->second) records += End(to, time, transfer);
    waited_for_.erase(waited);
  }
  const bool over = HasRequest(call) ? call.completed_ns != 0 && call.waiter == 0 : call.returned_ns != 0;
  Transfer transfer;
  if (over && Moves(call) && TransferOf(merged, &transfer)) records += End(to, time, transfer);
  return records;
}

}  // namespace ncclwatch::analyzer::exporting
