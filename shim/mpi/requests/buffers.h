// NCCLWATCH_MPI_CHECKS=buffers: whether the program changes a buffer between the call that begins an operation on it
// and the one that completes it. What is sent is hashed at both ends. What is received goes into a shadow of ours,
// which holds what the buffer held, and is copied when the program learns of the end; until then nobody but the program
// writes to the buffer. Only of buffers in one piece, in memory that is no window's; of accesses to windows see
// origins.h.
#pragma once

#include <cstdint>

#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/call.h"
#include "shim/mpi/requests/footprint.h"

namespace ncclwatch::shim::mpi {

// Of the operation in `call.slot`, before the call that begins it: what is to be added to the address that MPI is
// given; 0 where there is no shadow.
std::intptr_t ShadowReceived(const Call& call, const Piece& piece);
template <class T>
T* Moved(T* buffer, std::intptr_t by) {
  return reinterpret_cast<T*>(reinterpret_cast<std::intptr_t>(buffer) + by);
}
// After it, if it has succeeded.
void WatchSent(const Call& call, const Piece& piece);
// It has not, or the operation goes on where nobody learns of its end.
void DropBuffers(std::uint64_t slot);
// The operation is over, as the call `ends` learns.
void EndBuffers(Call& ends, std::uint64_t slot);

// What a persistent operation uses each time that it is started. `written` is all that is received, or has no shadow.
struct SavedBuffers {
  Piece read = {}, written = {};
  Piece shadow = {};
  bool watches_read = false;

  std::intptr_t moved() const { return shadow.empty() ? 0 : static_cast<std::intptr_t>(shadow.begin - written.begin); }
};
SavedBuffers PrepareBuffers(const Call& call, const Piece& read, bool all_read, const Piece& written, bool all_written);
void KeepBuffers(MPI_Request request, const SavedBuffers& kept);
void Discard(const SavedBuffers& kept);
void StartBuffers(Call& start, Call& operation, MPI_Request request);
void DropSavedBuffers(std::uint64_t request);

// A request is freed while MPI may yet write to its shadow. True: it is kept until it is complete, and MPI is not told.
bool KeepFreed(Call& call, MPI_Request request);
extern std::atomic<std::uint32_t> freed_requests;  // that are kept
void PollFreed(Call& call);
void FreeKeptOnes(Call& finalize);

// A call inside another one's, by a tool or a callback, may complete operations whose results lie in shadows.
class EndsInside {
 public:
  EndsInside(int count, const MPI_Request* requests);
  ~EndsInside();
  EndsInside(const EndsInside&) = delete;
  EndsInside& operator=(const EndsInside&) = delete;
  void After(Call& call);

 private:
  struct Row {
    MPI_Request request;
    std::uint64_t slot;
    bool persistent;
  };
  static constexpr int kFew = 64;
  const MPI_Request* requests_;
  int count_;
  Row few_[kFew];
  Row* rows_ = few_;
};
bool AnyShadow();

}  // namespace ncclwatch::shim::mpi
