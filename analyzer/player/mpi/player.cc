// Plays recorded calls of MPI: a module for each MPI's ABI, which the command opens beside the MPI itself.
#include <utility>

#include "analyzer/player/mpi/collectives.h"
#include "analyzer/player/mpi/communicators.h"
#include "analyzer/player/mpi/messages.h"

namespace ncclwatch::player {
namespace {

using functions::Family;
using functions::Function;

// Of any and some: those that ended it then end it now, and nothing else is asked for.
void Wait(const Call& call, std::vector<MPI_Request>& requests, std::vector<MPI_Status>& statuses) {
  const int n = static_cast<int>(requests.size());
  int done = 0, index = 0;
  switch (call.as.function) {
    case Function::MPI_Wait:
      if (n == 1) MPI_Wait(requests.data(), statuses.data());
      if (n == 1) return;
      break;
    case Function::MPI_Waitany:
      if (n == 1) MPI_Waitany(n, requests.data(), &index, statuses.data());
      if (n == 1) return;
      break;
    case Function::MPI_Test:
    case Function::MPI_Testany:
    case Function::MPI_Testall:
    case Function::MPI_Testsome:
      while (!done) MPI_Testall(n, requests.data(), &done, statuses.data());
      return;
    default: break;
  }
  MPI_Waitall(n, requests.data(), statuses.data());
}

class Player {
 public:
  Player(Script* script, Listener* listener) : stage_{*script, *listener} {
    stage_.comms.assign(script->communicators.size(), MPI_COMM_NULL);
  }

  const char* Play() {
    std::vector<Call> calls;
    while (stage_.script.Next(&calls)) {
      for (Call& call : calls) {
        stage_.pace.After(call.before_ns);
        call.left_out ? stage_.pace.Wait() : One(call);
        if (stage_.problem) return stage_.problem;
      }
      calls.clear();
    }
    return "";
  }

 private:
  void One(Call& call) {
    const functions::FunctionInfo* const info = functions::Find(call.as.function);
    if (!info) return stage_.listener.NotPlayed(call);
    switch (info->family) {
      case Family::kLife: return Live(call);
      case Family::kCreation: return MakeCommunicator(stage_, call);
      case Family::kLifecycle: return FreeCommunicator(stage_, call);
      case Family::kCollective:
      case Family::kRooted: return PlayCollective(stage_, call);
      case Family::kPointToPoint: return messages_.Play(call);
      case Family::kProbe: return messages_.Probe(call);
      case Family::kCompletion: return Complete(call);
      case Family::kRequest:  // a request is started, freed and cancelled with the call that made it
      case Family::kGroup: return;
      case Family::kWindow:
      case Family::kFile:
      case Family::kOneSided: return stage_.listener.NotPlayed(call);
      default: return;  // it moves nothing between ranks
    }
  }

  void Live(const Call& call) {
    int done = 0;
    switch (call.as.function) {
      case Function::MPI_Init:
      case Function::MPI_Init_thread:
        MPI_Initialized(&done);
        if (done) return;
        stage_.pace.Timed([&] {
          int provided = 0;
          call.as.function == Function::MPI_Init
              ? MPI_Init(nullptr, nullptr)
              : MPI_Init_thread(nullptr, nullptr, stage_.script.thread_level, &provided);
        });
        return BeginCommunicators(stage_);
      case Function::MPI_Finalize:
        MPI_Finalized(&done);
        if (!done && stage_.user_op != MPI_OP_NULL) MPI_Op_free(&stage_.user_op);
        if (!done) stage_.pace.Timed([] { MPI_Finalize(); });
        return;
      case Function::MPI_Abort: stage_.pace.Timed([] { MPI_Abort(MPI_COMM_WORLD, 1); }); return;
      default: return stage_.listener.NotPlayed(call);
    }
  }

  void Complete(const Call& call) {
    std::vector<Work*> ended;
    std::vector<MPI_Request> requests;
    for (const std::uint64_t slot : call.ends) {
      const auto found = stage_.requests.find(slot);
      if (found == stage_.requests.end()) continue;
      ended.push_back(found->second.get());
      requests.push_back(found->second->request);
    }
    if (requests.empty()) return stage_.pace.Wait();
    std::vector<MPI_Status> statuses(requests.size());
    stage_.pace.Timed([&] { Wait(call, requests, statuses); });
    for (std::size_t i = 0; i < ended.size(); ++i) {
      Work& work = *ended[i];
      work.status = statuses[i];
      End(stage_, work, stage_.pace.over_ns() - work.began_ns);
      if (work.persistent && requests[i] != MPI_REQUEST_NULL) MPI_Request_free(&requests[i]);
      stage_.requests.erase(work.call.as.slot);
    }
  }

  Stage stage_;
  Messages messages_{&stage_};
};

}  // namespace
}  // namespace ncclwatch::player

extern "C" [[gnu::visibility("default")]] const char* ncclwatch_play_mpi(ncclwatch::player::Script* script,
                                                                         ncclwatch::player::Listener* listener) {
  return ncclwatch::player::Player(script, listener).Play();
}
