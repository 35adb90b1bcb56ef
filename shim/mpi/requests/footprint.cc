#include "shim/mpi/requests/footprint.h"

#include "shim/mpi/core/misuse.h"
#include "shim/mpi/objects/objects.h"

namespace ncclwatch::shim::mpi {

constinit OpenBuffers open_buffers;

void ReportInUse(Call& call, Use use, const Piece& piece) {
  OpenBuffer in_use;
  if (InSight(ObjectKind::kRequest) && open_buffers.Find(piece, use, call.site, &in_use))
    Report(call, {.wrong = Wrong::kBufferInUse,
                  .made_at = in_use.begun_at,
                  .made_by = static_cast<functions::Function>(in_use.function)});
}

bool Footprint::Look(MPI_Datatype type) {
  if (any_type_ && Bits(type) == type_bits_) return known_;
  any_type_ = true;
  type_bits_ = Bits(type);
  known_ = FindDatatype(type, &type_) && type_.extent != 0;
  return known_;
}

void Footprint::AddAt(Use use, const void* buffer, std::int64_t place, std::uint64_t count, MPI_Datatype type) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 47;  // more is a negative count
  if (buffer == MPI_IN_PLACE || count == 0) return;
  if (count > kMost || !Look(type) || type_.bytes == 0 || type_.bytes > kMost / count) return Miss(use);
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(buffer) + static_cast<std::uintptr_t>(place);
  Piece piece{begin, begin + type_.bytes * count};
  if (!type_.whole) {
    const std::uintptr_t first = begin + static_cast<std::uintptr_t>(type_.lowest);
    piece = {first, first + 1};
    Miss(use);
  }
  if (checked_) CheckUse(call_, use, piece);
  Piece& known = pieces_[static_cast<int>(use)];
  if (known.empty())
    known = piece;
  else if (type_.whole && piece.begin == known.end)
    known.end = piece.end;
  else if (type_.whole && piece.end == known.begin)
    known.begin = piece.begin;
  else
    Miss(use);
}

void Footprint::Open(bool one_sided) const {
  for (const Use use : {Use::kWritten, Use::kRead}) OpenPiece(call_, use, of(use), one_sided);
}

}  // namespace ncclwatch::shim::mpi
