#include "analyzer/player/mpi/messages.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "analyzer/player/base/values.h"
#include "analyzer/player/mpi/types.h"

namespace ncclwatch::player {
namespace {

using functions::Function;

constexpr std::size_t kAttached = 64u << 20;

bool Sends(Function function) { return function < Function::MPI_Recv && function >= Function::MPI_Send; }

int PeerOf(const Call& call) {
  if ((call.as.flags & format::kNoPartner) != 0) return MPI_PROC_NULL;
  return (call.as.flags & format::kAnySource) != 0 ? MPI_ANY_SOURCE : call.as.root;
}

int TagOf(const Call& call) { return (call.as.flags & format::kAnyTag) != 0 ? MPI_ANY_TAG : std::max(call.as.tag, 0); }

void Fill(bool sends, int own, Work* work) {
  const std::size_t bytes = work->call.as.bytes;
  if (sends) {
    work->from.resize(bytes);
    return FillBytes(work->from.data(), bytes, own);
  }
  work->into.assign(bytes, kUntouched);
  work->check = [work] {
    int received = 0, cancelled = 0;
    MPI_Test_cancelled(&work->status, &cancelled);
    if (cancelled || work->status.MPI_SOURCE == MPI_PROC_NULL) return Listener::Data::kNotChecked;
    MPI_Get_count(&work->status, MPI_BYTE, &received);
    const bool whole = received >= 0 && static_cast<std::size_t>(received) <= work->into.size();
    return Reported(whole && BytesAre(work->into.data(), static_cast<std::size_t>(received), work->status.MPI_SOURCE));
  };
}

void Make(Function function, MPI_Comm comm, Work* w) {
  const Elements elements = ElementsOf(w->call);
  const MPI_Datatype type = elements.type;
  const int n = elements.count, peer = PeerOf(w->call), tag = TagOf(w->call);
  void* const from = w->from.data();
  void* const into = w->into.data();
  MPI_Request* const request = &w->request;
  switch (function) {
    case Function::MPI_Send: MPI_Send(from, n, type, peer, tag, comm); return;
    case Function::MPI_Ssend: MPI_Ssend(from, n, type, peer, tag, comm); return;
    case Function::MPI_Rsend: MPI_Rsend(from, n, type, peer, tag, comm); return;
    case Function::MPI_Isend: MPI_Isend(from, n, type, peer, tag, comm, request); return;
    case Function::MPI_Issend: MPI_Issend(from, n, type, peer, tag, comm, request); return;
    case Function::MPI_Irsend: MPI_Irsend(from, n, type, peer, tag, comm, request); return;
    case Function::MPI_Irecv:
    case Function::MPI_Imrecv: MPI_Irecv(into, n, type, peer, tag, comm, request); return;
    case Function::MPI_Send_init: MPI_Send_init(from, n, type, peer, tag, comm, request); break;
    case Function::MPI_Ssend_init: MPI_Ssend_init(from, n, type, peer, tag, comm, request); break;
    case Function::MPI_Rsend_init: MPI_Rsend_init(from, n, type, peer, tag, comm, request); break;
    case Function::MPI_Recv_init: MPI_Recv_init(into, n, type, peer, tag, comm, request); break;
    default: MPI_Recv(into, n, type, peer, tag, comm, &w->status); return;  // MPI_Mrecv too
  }
  w->persistent = true;
  MPI_Start(request);
}

}  // namespace

void Messages::Play(Call& call) {
  const MPI_Comm comm = stage_.On(call);
  const Function function = functions::WithSmallCounts(call.as.function);
  const Way way = WayOf(function);
  if (way == Way::kPersistent && (call.as.flags & format::kRequest) == 0) return;  // it is made when it is started
  if (comm == MPI_COMM_NULL) return stage_.listener.NotPlayed(call);
  const bool exchange = functions::FullName(function).find("endrecv") != std::string_view::npos;
  const bool sends = exchange ? call.as.group == 0 || call.as.group == call.as.slot + 1 : Sends(function);
  const int own = stage_.Of(call).own;
  auto work = std::make_unique<Work>();
  work->call = std::move(call);
  Fill(sends, own, work.get());
  if (exchange && sends) {
    exchange_ = std::move(work);
    return;
  }
  if (exchange) return Exchange(comm, way, std::move(work));
  const bool buffered = (work->call.as.flags & format::kBuffered) != 0;
  const std::int64_t took =
      stage_.pace.Timed([&] { buffered ? Buffered(function, comm, work.get()) : Make(function, comm, work.get()); });
  Started(stage_, std::move(work), way, took);
}

// One that is persistent is made anew each time it is started.
void Messages::Buffered(Function function, MPI_Comm comm, Work* w) {
  if (attached_.empty()) {
    attached_.resize(kAttached);
    MPI_Buffer_attach(attached_.data(), static_cast<int>(attached_.size()));
  }
  const Elements elements = ElementsOf(w->call);
  const int peer = PeerOf(w->call), tag = TagOf(w->call);
  if (function == Function::MPI_Bsend)
    MPI_Bsend(w->from.data(), elements.count, elements.type, peer, tag, comm);
  else
    MPI_Ibsend(w->from.data(), elements.count, elements.type, peer, tag, comm, &w->request);
}

// Both records of the call are there. One that replaces what it sends is played with two buffers.
void Messages::Exchange(MPI_Comm comm, Way way, std::unique_ptr<Work> receive) {
  std::unique_ptr<Work> send = std::move(exchange_);
  if (!send) return stage_.listener.NotPlayed(receive->call);
  const Elements out = ElementsOf(send->call), in = ElementsOf(receive->call);
  Work* const s = send.get();
  Work* const r = receive.get();
  const std::int64_t took = stage_.pace.Timed([&] {
    if (way == Way::kBlocking) {
      MPI_Sendrecv(s->from.data(), out.count, out.type, PeerOf(s->call), TagOf(s->call), r->into.data(), in.count,
                   in.type, PeerOf(r->call), TagOf(r->call), comm, &r->status);
      return;
    }
    MPI_Irecv(r->into.data(), in.count, in.type, PeerOf(r->call), TagOf(r->call), comm, &r->request);
    MPI_Isend(s->from.data(), out.count, out.type, PeerOf(s->call), TagOf(s->call), comm, &s->request);
  });
  Started(stage_, std::move(send), way, took);
  Started(stage_, std::move(receive), way, took);
}

// What asked and found is played as asking, but not for ever: one that waits is seen to wait.
void Messages::Probe(const Call& call) {
  constexpr int kMostPolls = 1'000'000;
  const MPI_Comm comm = stage_.On(call);
  if (comm == MPI_COMM_NULL) return stage_.listener.NotPlayed(call);
  if ((call.as.flags & format::kPolls) != 0) return;  // it found nothing
  const bool asks = call.as.function != Function::MPI_Probe && call.as.function != Function::MPI_Mprobe;
  stage_.pace.Timed([&] {
    MPI_Status status;
    int found = 0;
    for (int i = 0; asks && !found && i < kMostPolls; ++i) MPI_Iprobe(PeerOf(call), TagOf(call), comm, &found, &status);
    if (!found) MPI_Probe(PeerOf(call), TagOf(call), comm, &status);
  });
}

}  // namespace ncclwatch::player
