#include "shim/mpi/objects/checks.h"

#include <climits>

#include "shim/mpi/core/real.h"
#include "shim/mpi/objects/datatypes.h"
#include "shim/mpi/objects/objects.h"

namespace ncclwatch::shim::mpi {

using functions::Function;

constinit std::atomic<int> highest_tag{INT_MAX};

void LearnHighestTag() {
  void* value = nullptr;
  int known = 0;
  auto* ask = NCCLWATCH_REAL(MPI_Comm_get_attr);
  if (ask && ask(MPI_COMM_WORLD, MPI_TAG_UB, &value, &known) == MPI_SUCCESS && known && value)
    highest_tag.store(*static_cast<int*>(value), std::memory_order_relaxed);
}

void CheckUnknown(Call& call, MPI_Comm comm) {
  Life life;
  if (comm == MPI_COMM_NULL)
    Report(call, {.wrong = Wrong::kNullCommunicator});
  else if (WasFreed(ObjectKind::kCommunicator, Bits(comm), &life))
    Report(call, {.wrong = Wrong::kFreedCommunicator,
                  .made_at = life.freed_at,
                  .made_by = static_cast<Function>(life.freed_by)});
}

void CheckUnusable(Call& call, MPI_Datatype type) {
  Datatype known;
  if (call.inter || call.count == 0) return;
  if (type == MPI_DATATYPE_NULL) return Report(call, {.wrong = Wrong::kNullType});
  if (!FindAnyDatatype(type, &known) || !InSight(ObjectKind::kDatatype)) return;
  if (known.freed_at != 0)
    Report(call, {.wrong = Wrong::kFreedType, .made_at = known.freed_at, .made_by = Function::MPI_Type_free});
  else if (!known.committed)
    Report(
        call,
        {.wrong = Wrong::kUncommittedType, .made_at = known.made_at, .made_by = static_cast<Function>(known.made_by)});
}

void CheckUserOperator(Call& call, MPI_Op op) {
  Life life;
  if (op == MPI_OP_NULL) return Report(call, {.wrong = Wrong::kNullOperator});
  if (WasFreed(ObjectKind::kOperator, Bits(op), &life))
    Report(call,
           {.wrong = Wrong::kFreedOperator, .made_at = life.freed_at, .made_by = static_cast<Function>(life.freed_by)});
}

void CheckNoBuffer(Call& call, const void* buffer, std::uint64_t count, MPI_Datatype type) {
  // Who is not known to be the root or not may do what the root may.
  if (buffer) return call.rank >= 0 ? Report(call, {.wrong = Wrong::kInPlace}) : void();
  if (IsPredefined(type) && static_cast<std::int64_t>(count) > 0)
    Report(call, {.wrong = Wrong::kNullBuffer, .value = static_cast<std::int64_t>(count)});
}

void CheckOwnPartAlike(Call& call, std::uint64_t sent, MPI_Datatype sent_type, std::uint64_t received,
                       MPI_Datatype received_type) {
  const Predefined::Entry* const from = predefined_types.Find(Bits(sent_type));
  const Predefined::Entry* const into = predefined_types.Find(Bits(received_type));
  if (!from || !into) return;
  const std::uint64_t bytes = sent * from->bytes, room = received * into->bytes;
  if (bytes == room && (bytes == 0 || Alike(from->number, into->number))) return;
  Report(call, {.wrong = Wrong::kUnlikeOwnPart,
                .value = static_cast<std::int64_t>(bytes),
                .limit = static_cast<std::int64_t>(room)});
}

void CheckOverlap(Call& call, MPI_Datatype sent_type, MPI_Datatype received_type, std::uint64_t bytes) {
  // Others may have gaps, in which the other one's elements lie.
  if (IsPredefined(sent_type) && IsPredefined(received_type))
    Report(call, {.wrong = Wrong::kBuffersOverlap, .value = static_cast<std::int64_t>(bytes)});
}

void ReportPeer(Call& call) {
  if (call.root == MPI_ANY_SOURCE) return Report(call, {.wrong = Wrong::kAnyDestination});
  Report(call, {.wrong = Wrong::kRankOutOfRange, .value = call.root, .limit = call.size});
}

void ReportTag(Call& call, int tag) {
  if (call.root == MPI_PROC_NULL) return;
  if (tag == MPI_ANY_TAG) return Report(call, {.wrong = Wrong::kAnyTagSent});
  Report(call, {.wrong = Wrong::kTagOutOfRange, .value = tag, .limit = highest_tag.load(std::memory_order_relaxed)});
}

}  // namespace ncclwatch::shim::mpi
