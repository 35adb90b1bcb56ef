#include "shim/mpi/communicators/files.h"

#include "shim/black_box/table.h"
#include "shim/mpi/communicators/communicators.h"
#include "shim/mpi/core/handle_map.h"
#include "shim/mpi/objects/objects.h"

namespace ncclwatch::shim::mpi {
namespace {

struct File {
  std::uint32_t index = format::kNoCommunicator;
  std::uint32_t generation = 0;
};
constinit HandleMap<File> files;

}  // namespace

void EndOpening(Call& call, std::uint32_t made, int result, const MPI_File* file) {
  if (result == MPI_SUCCESS) {
    NoteMade(call, ObjectKind::kFile, Bits(*file));
    files.Remove(Bits(*file), [](const File&) { return true; });
    if (made != format::kNoCommunicator) files.Put(Bits(*file), {made, GenerationOf(call.box.communicators[made])});
  }
  EndCreateCommObject(call, made, result, result == MPI_SUCCESS ? Bits(*file) : 0);
}

void AttachFile(Call& call, MPI_File handle) {
  File file;
  if (!files.Find(Bits(handle), &file)) return;
  const format::Communicator& entry = call.box.communicators[file.index];
  call.index = file.index;
  call.generation = file.generation;
  call.rank = static_cast<std::int32_t>(entry.rank);
  call.size = entry.size;
  if (entry.size == 1) call.flags |= format::kOneRank;
}

void EndClosing(Call& call, MPI_File handle, int result) {
  if (result == MPI_SUCCESS) {
    NoteFreed(call, ObjectKind::kFile, Bits(handle));
    files.Remove(Bits(handle), [&](const File& file) { return file.index == call.index; });
  }
  EndFreeCommObject(call, result);
}

}  // namespace ncclwatch::shim::mpi
