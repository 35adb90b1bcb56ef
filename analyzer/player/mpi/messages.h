// Plays recorded messages and probes of MPI.
#pragma once

#include "analyzer/player/mpi/work.h"

namespace ncclwatch::player {

class Messages {
 public:
  explicit Messages(Stage* stage) : stage_(*stage) {}
  // Takes the call over.
  void Play(Call& call);
  void Probe(const Call& call);

 private:
  void Buffered(functions::Function function, MPI_Comm comm, Work* work);
  void Exchange(MPI_Comm comm, Way way, std::unique_ptr<Work> receive);

  Stage& stage_;
  std::unique_ptr<Work> exchange_;  // the sending half of an MPI_Sendrecv
  std::vector<char> attached_;      // the buffer of MPI_Bsend
};

}  // namespace ncclwatch::player
