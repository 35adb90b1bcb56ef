// The memory that a call reads and writes on this rank, and whether it may: operations that are still active use theirs
// until they are completed.
#pragma once

#include <cstdint>

#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/call.h"
#include "shim/mpi/core/open_buffers.h"
#include "shim/mpi/objects/datatypes.h"

namespace ncclwatch::shim::mpi {

extern OpenBuffers open_buffers;

// A negative count becomes more than there can be.
template <class Count>
std::uint64_t Unsigned(Count count) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(count));
}

// Of one that is still active and forbids what the call does.
[[gnu::cold, gnu::noinline]] void ReportInUse(Call& call, Use use, const Piece& piece);
inline void CheckUse(Call& call, Use use, const Piece& piece) {
  if (open_buffers.MayOverlap(piece) && open_buffers.Find(piece, use, call.site)) [[unlikely]]
    ReportInUse(call, use, piece);
}
// Of a message.
[[gnu::always_inline]] inline void UseBuffer(Call& call, Use use, const void* buffer, MPI_Datatype type) {
  call.piece = PieceOf(call, buffer, type);
  CheckUse(call, use, call.piece);
}
// The call has begun an operation.
inline void OpenPiece(const Call& call, Use use, const Piece& piece, bool one_sided = false) {
  if (call.slot == kNoSlot) return;
  open_buffers.Add({piece, call.slot, call.site, static_cast<std::uint32_t>(call.function), use, one_sided});
}

// Of a collective or an access: its buffers one after the other. What adjoins is one piece; of several the first is
// kept, and all are checked.
class Footprint {
 public:
  // Not checked: of what is not begun yet.
  explicit Footprint(Call& call, bool checked = true) : call_(call), checked_(checked) {}

  void Add(Use use, const void* buffer, std::uint64_t count, MPI_Datatype type) { AddAt(use, buffer, 0, count, type); }
  // One for each rank, at places counted in the type's extents.
  template <class Counts, class Places>
  void AddEach(Use use, const void* buffer, std::uint32_t ranks, Counts counts, Places places, MPI_Datatype type) {
    if (!counts || !places || !Look(type)) return Miss(use);
    for (std::uint32_t i = 0; i < ranks; ++i)
      AddAt(use, buffer, static_cast<std::int64_t>(places[i]) * type_.extent, Unsigned(counts[i]), type);
  }
  // ... or in bytes.
  template <class Counts, class Places>
  void AddEach(Use use, const void* buffer, std::uint32_t ranks, Counts counts, Places places,
               const MPI_Datatype* types) {
    if (!counts || !places || !types) return Miss(use);
    for (std::uint32_t i = 0; i < ranks; ++i)
      AddAt(use, buffer, static_cast<std::int64_t>(places[i]), Unsigned(counts[i]), types[i]);
  }

  const Piece& of(Use use) const { return pieces_[static_cast<int>(use)]; }
  // The piece is all of it.
  bool all(Use use) const { return !of(use).empty() && !missed_[static_cast<int>(use)]; }
  // The call has begun an operation.
  void Open(bool one_sided = false) const;

 private:
  bool Look(MPI_Datatype type);
  void AddAt(Use use, const void* buffer, std::int64_t place, std::uint64_t count, MPI_Datatype type);
  void Miss(Use use) { missed_[static_cast<int>(use)] = true; }

  Call& call_;
  bool checked_;
  Piece pieces_[2];
  bool missed_[2] = {};
  std::uint64_t type_bits_ = 0;
  bool any_type_ = false;
  bool known_ = false;
  Datatype type_;
};

}  // namespace ncclwatch::shim::mpi
