// A job of MPI told in a few lines: what its ranks' black boxes hold after sends, receives, waits and probes, counted
// as the recorder counts them (shim/mpi/record/record.cc).
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "tests/unit/support/job_builder.h"

namespace ncclwatch::testing {

inline constexpr std::uint8_t kMpiInt = 71, kMpiFloat = 75, kMpiByte = 67, kMpiPacked = 80;
inline constexpr int kAny = -1;     // source or tag
inline constexpr int kNobody = -2;  // MPI_PROC_NULL
inline constexpr std::uint64_t kSmall = 64, kLarge = 1 << 20;

// So many elements of one type, as an amount.
format::Part Ints(std::uint64_t count);
format::Part Floats(std::uint64_t count);

struct MpiMessage {
  int peer = 0;
  int tag = 0;
  std::uint64_t bytes = kSmall;
  Function function = Function::kNone;  // none: MPI_Send, MPI_Recv, MPI_Probe
  int comm = Job::kWorld;
  std::uint8_t dtype = kMpiInt;
  std::uint32_t signature = 0x5167;
  std::uint32_t flags = 0;  // beside what the function says
};

class MpiJob : public Job {
 public:
  explicit MpiJob(int ranks);
  int MpiComm(const std::vector<int>& ranks);

  // Inside the call; its slot. Those with a request have returned.
  std::uint64_t Send(int rank, const MpiMessage& message);
  std::uint64_t Ssend(int rank, MpiMessage message);
  std::uint64_t Isend(int rank, MpiMessage message);
  std::uint64_t Recv(int rank, const MpiMessage& message);
  std::uint64_t Irecv(int rank, MpiMessage message);
  std::uint64_t Probe(int rank, const MpiMessage& message);
  // Both records of it; the slot of the receive.
  std::uint64_t Sendrecv(int rank, const MpiMessage& send, const MpiMessage& receive);
  std::uint64_t Collective(int rank, Function function, int root = format::kNoRank, int comm = kWorld);
  // ... with amounts for single ranks, as the recorder keeps them.
  std::uint64_t Amounts(int rank, Function function, const std::vector<format::Part>& sends,
                        const std::vector<format::Part>& receives, int root = format::kNoRank, int comm = kWorld);
  // ... started: the one that was made as the `number`th.
  std::uint64_t StartAmounts(int rank, Function function, std::uint32_t number, const std::vector<format::Part>& sends,
                             const std::vector<format::Part>& receives);
  // Makes a communicator of `parent`, which is not told; inside the call.
  std::uint64_t Create(int rank, Function function, int parent = kWorld);
  // MPI_Comm_create_group of these ranks of `parent`, by one of them: inside it, for a communicator of that name.
  std::uint64_t CreateGroup(int rank, const std::vector<int>& group, std::uint64_t id, int parent = kWorld);
  void Finalize(int rank);
  std::uint64_t Wait(int rank, Function function, const std::vector<std::uint64_t>& requests);
  // A test that found nothing: one of a row.
  void Poll(int rank, Function function, const std::vector<std::uint64_t>& requests);
  void PollProbe(int rank, MpiMessage message);

  // A receive has met the message; it still has to return, or to be completed.
  void Receipt(int rank, std::uint64_t slot, int source, int tag);
  void Complete(int rank, std::uint64_t slot);
  // All of it at once.
  void Sent(int rank, const MpiMessage& message);
  void Received(int rank, const MpiMessage& message);

  reader::Call& At(int rank, std::uint64_t slot);
  using Job::At;
  void Forget(int rank, std::uint64_t before);  // the ring has wrapped past these slots

 protected:
  void Tell(int rank, std::uint64_t slot, const std::vector<format::Part>& sends,
            const std::vector<format::Part>& receives);

 private:
  struct Tags {
    std::uint32_t sent = 0, received = 0;
  };
  std::uint64_t Put(int rank, const MpiMessage& message, std::uint64_t position, std::uint32_t chain,
                    Function otherwise);
  void Repeat(int rank, reader::Call poll);
  reader::PeerCount& Counts(int rank, const reader::Communicator& entry, std::uint32_t peer);

  std::map<int, std::uint64_t> parts_;                                  // by rank: entries taken
  std::map<std::tuple<int, std::uint32_t, std::uint32_t>, Tags> tags_;  // by rank, communicator's index, peer
};

}  // namespace ncclwatch::testing
