#include "analyzer/player/mpi/collectives.h"

#include <utility>

#include "analyzer/player/mpi/prepare.h"
#include "analyzer/player/mpi/types.h"
#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::player {
namespace {

using functions::Function;

void DoNothing(void*, void*, int*, MPI_Datatype*) {}

// The user's own reduction is not known, nor one over a type that is played as bytes.
MPI_Op Reducing(Stage& stage, const Call& call, MPI_Datatype type) {
  const MPI_Op known = OperatorOf(call.as.reduction);
  if (known != MPI_OP_NULL && type != MPI_BYTE) return known;
  if (stage.user_op == MPI_OP_NULL) MPI_Op_create(DoNothing, 1, &stage.user_op);
  return stage.user_op;
}

void Make(Stage& stage, Function function, Way way, MPI_Comm comm, int own, Work* w) {
  const Elements elements = ElementsOf(w->call);
  const MPI_Datatype type = elements.type;
  const int n = elements.count, root = w->call.as.root;
  void* const from = w->from.data();
  void* const into = w->into.data();
  const MPI_Datatype sent = TypeOf(w->call.sends, w->call), received = TypeOf(w->call.receives, w->call);
  const int* const from_n = w->from_counts.data();
  const int* const from_at = w->from_places.data();
  const int* const into_n = w->into_counts.data();
  const int* const into_at = w->into_places.data();
  const int first = w->from_counts.empty() ? 0 : *from_n, room = w->into_counts.empty() ? 0 : *into_n;
  const int share = w->into_counts.empty() ? 0 : w->into_counts[static_cast<std::size_t>(own) % w->into_counts.size()];
  const auto op = [&] { return Reducing(stage, w->call, type); };
  const bool starts = way != Way::kBlocking;
  switch (function) {
#define PLAYS(name, immediate, ...) \
  case Function::name: starts ? immediate(__VA_ARGS__, &w->request) : name(__VA_ARGS__); break;
    PLAYS(MPI_Barrier, MPI_Ibarrier, comm)
    PLAYS(MPI_Bcast, MPI_Ibcast, into, n, type, root, comm)
    PLAYS(MPI_Reduce, MPI_Ireduce, from, into, n, type, op(), root, comm)
    PLAYS(MPI_Allreduce, MPI_Iallreduce, from, into, n, type, op(), comm)
    PLAYS(MPI_Scan, MPI_Iscan, from, into, n, type, op(), comm)
    PLAYS(MPI_Exscan, MPI_Iexscan, from, into, n, type, op(), comm)
    PLAYS(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, from, into, n, type, op(), comm)
    PLAYS(MPI_Reduce_scatter, MPI_Ireduce_scatter, from, into, into_n, type, op(), comm)
    PLAYS(MPI_Gather, MPI_Igather, from, n, type, into, n, type, root, comm)
    PLAYS(MPI_Scatter, MPI_Iscatter, from, n, type, into, n, type, root, comm)
    PLAYS(MPI_Gatherv, MPI_Igatherv, from, first, sent, into, into_n, into_at, received, root, comm)
    PLAYS(MPI_Scatterv, MPI_Iscatterv, from, from_n, from_at, sent, into, room, received, root, comm)
    PLAYS(MPI_Allgather, MPI_Iallgather, from, n, type, into, n, type, comm)
    PLAYS(MPI_Alltoall, MPI_Ialltoall, from, n, type, into, n, type, comm)
    PLAYS(MPI_Allgatherv, MPI_Iallgatherv, from, share, type, into, into_n, into_at, type, comm)
    PLAYS(MPI_Alltoallv, MPI_Ialltoallv, from, from_n, from_at, sent, into, into_n, into_at, received, comm)
    PLAYS(MPI_Alltoallw, MPI_Ialltoallw, from, from_n, from_at, w->from_types.data(), into, into_n, into_at,
          w->into_types.data(), comm)
#undef PLAYS
    default: break;
  }
}

}  // namespace

void PlayCollective(Stage& stage, Call& call) {
  const Function blocking = functions::BlockingOfMpi(call.as.function);
  const MPI_Comm comm = stage.On(call);
  if (comm == MPI_COMM_NULL || functions::PatternOfMpi(blocking) == functions::Pattern::kNone)
    return stage.listener.NotPlayed(call);
  const Way way = WayOf(call.as.function);
  if (way == Way::kPersistent && (call.as.flags & format::kRequest) == 0) return;  // it is made when it is started
  const int own = stage.Of(call).own;
  auto work = std::make_unique<Work>();
  work->call = std::move(call);
  if (!Prepare(stage, blocking, work.get())) return;
  const std::int64_t took = stage.pace.Timed([&] { Make(stage, blocking, way, comm, own, work.get()); });
  Started(stage, std::move(work), way, took);
}

}  // namespace ncclwatch::player
