// A call of MPI under way, and what the parts of the player share.
#pragma once

#include <mpi.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "analyzer/player/base/pace.h"
#include "analyzer/player/base/play.h"

namespace ncclwatch::player {

inline constexpr char kUntouched = 0x5a;  // bytes that nothing has arrived in

// What a call has, from its start to its end.
struct Work {
  Call call;
  std::vector<char> from, into;
  std::vector<int> from_counts, from_places, into_counts, into_places;  // of v- and w-variants
  std::vector<MPI_Datatype> from_types, into_types;
  MPI_Request request = MPI_REQUEST_NULL;
  bool persistent = false;
  std::int64_t began_ns = 0;
  MPI_Status status;
  std::function<Listener::Data()> check;  // of what has arrived; empty: nothing to check
};

enum class Way { kBlocking, kImmediate, kPersistent };
Way WayOf(functions::Function function);

struct Stage {
  MPI_Comm On(const Call& call) const { return call.comm < 0 ? MPI_COMM_NULL : comms[Index(call)]; }
  const Communicator& Of(const Call& call) const { return script.communicators[Index(call)]; }

  Script& script;
  Listener& listener;
  Pace pace = {};
  std::vector<MPI_Comm> comms = {};                              // by the script's index
  std::map<std::uint64_t, std::unique_ptr<Work>> requests = {};  // by the slot of their call
  std::vector<std::unique_ptr<Work>> forgotten = {};  // whose requests the program freed while they were active
  MPI_Op user_op = MPI_OP_NULL;                       // stands for those of the program
  const char* problem = nullptr;                      // the rest cannot be played

 private:
  static std::size_t Index(const Call& call) { return static_cast<std::size_t>(call.comm); }
};

// A blocking call is over; the request of another is kept until it is waited for.
void Started(Stage& stage, std::unique_ptr<Work> work, Way way, std::int64_t took);
void End(Stage& stage, const Work& work, std::int64_t took);

}  // namespace ncclwatch::player
