// What one rank plays: recorded calls with what a real library needs to make them again. Plain types, which the
// modules for MPI share with the command.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/reader/image.h"

namespace ncclwatch::player {

struct Communicator {
  // kMade: by one of the calls. kOfMembers: by none, so it is made when the list begins. kElse: it cannot be made.
  enum class Is : std::uint8_t { kMade, kWorld, kSelf, kOfMembers, kElse };
  Is is = Is::kMade;
  std::vector<int> members;  // ranks of the replay, by rank in it
  int own = -1;              // this rank's place among them; -1: none
  std::int32_t color = 0;    // of the split that made it; of MPI_COMM_WORLD the thread level
  std::string label;
};

struct Call {
  reader::Call as;                     // as recorded
  int comm = -1;                       // index into the communicators; -1: none
  int made = -1;                       // that it makes
  std::int64_t before_ns = 0;          // what the host did since the call before
  std::uint32_t claimed_size = 0;      // of an init: what the rank thought, 0: the truth
  bool left_out = false;               // only its time passes
  bool never_ends = false;             // the recorded GPU never finished it, and nothing else explains that
  bool never_begins = false;           // ... never came to it
  std::vector<std::uint64_t> ends;     // the slots of the calls whose requests it ends
  std::vector<format::Part> sends;     // of v- and w-variants
  std::vector<format::Part> receives;  // likewise
};

// The calls of one rank, piece by piece. Not thread-safe.
class Script {
 public:
  Script() = default;
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  virtual ~Script() = default;
  // False: the list is done, or a part of it cannot be read: `failure` says why.
  virtual bool Next(std::vector<Call>* calls) = 0;

  int rank = -1, ranks = 0;  // of the replay
  int thread_level = 3;      // MPI_THREAD_..., as it was granted
  std::vector<Communicator> communicators;
  std::string failure;
  std::string directory;  // shared by the ranks, for what they tell one another
};

// One kind of call: what nccl-tests has a line for.
struct Kind {
  functions::Function function{};
  int comm = -1;
  std::uint64_t count = 0, bytes = 0;
  std::uint8_t dtype = format::kNoType, reduction = format::kNoReduction;
  std::int32_t root = format::kNoRank;            // -1 for messages: all peers together
  auto operator<=>(const Kind&) const = default;  // NOLINT(modernize-use-nullptr): a false alarm
};

// Told by the player about each call that communicates.
class Listener {
 public:
  virtual ~Listener() = default;
  // Its time is over; 0: not known.
  virtual void Took(const Call& call, std::int64_t ns) = 0;
  enum class Data { kRight, kWrong, kNotChecked };
  virtual void Arrived(const Call& call, Data data) = 0;
  virtual void NotPlayed(const Call& call) = 0;
};

// Of a module for MPI (`ncclwatch_play_mpi`). Returns an empty text, or why the rest cannot be played.
using PlayMpi = const char* (*)(Script* script, Listener* listener);

}  // namespace ncclwatch::player
