#include "analyzer/player/mpi/work.h"

#include <utility>

namespace ncclwatch::player {

using functions::Function;

Way WayOf(Function function) {
  const Function plain = functions::WithSmallCounts(function);
  const auto from = [&](Function first) { return plain >= first; };
  if (from(Function::MPI_Send_init) && !from(Function::MPI_Recv)) return Way::kPersistent;
  if (from(Function::MPI_Isend) && !from(Function::MPI_Send_init)) return Way::kImmediate;
  if (from(Function::MPI_Barrier_init) && !from(Function::MPI_Send)) return Way::kPersistent;
  if (from(Function::MPI_Ibarrier) && !from(Function::MPI_Barrier_init)) return Way::kImmediate;
  switch (plain) {
    case Function::MPI_Irecv:
    case Function::MPI_Imrecv:
    case Function::MPI_Isendrecv:
    case Function::MPI_Isendrecv_replace: return Way::kImmediate;
    case Function::MPI_Recv_init: return Way::kPersistent;
    default: return Way::kBlocking;
  }
}

void Started(Stage& stage, std::unique_ptr<Work> work, Way way, std::int64_t took) {
  if (way == Way::kBlocking) return End(stage, *work, took);
  work->began_ns = stage.pace.over_ns() - took;
  const std::uint32_t flags = work->call.as.flags;
  if ((flags & format::kCancelled) != 0) MPI_Cancel(&work->request);
  if ((flags & format::kForgotten) == 0) {
    stage.requests[work->call.as.slot] = std::move(work);
    return;
  }
  if (work->request != MPI_REQUEST_NULL) MPI_Request_free(&work->request);
  stage.forgotten.push_back(std::move(work));  // MPI may still read and write its buffers
}

void End(Stage& stage, const Work& work, std::int64_t took) {
  stage.listener.Took(work.call, took);
  stage.listener.Arrived(work.call, work.check ? work.check() : Listener::Data::kNotChecked);
}

}  // namespace ncclwatch::player
