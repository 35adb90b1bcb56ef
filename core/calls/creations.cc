#include "core/calls/creations.h"

namespace ncclwatch::diagnosis {

using functions::Function;

bool MakesWindowOrFile(functions::Function function) {
  switch (functions::WithSmallCounts(function)) {
    case Function::MPI_Win_create:
    case Function::MPI_Win_allocate:
    case Function::MPI_Win_allocate_shared:
    case Function::MPI_Win_create_dynamic:
    case Function::MPI_File_open: return true;
    default: return false;
  }
}

// MPI_Comm_create_group is called by the group alone; what sessions and other worlds bring is made from no
// communicator.
bool HasOrdinal(const reader::Call& call) {
  if (!functions::IsMpi(call.function) || call.communicator == format::kNoCommunicator) return false;
  const functions::FunctionInfo* info = functions::Find(call.function);
  if (!MakesWindowOrFile(call.function) && (info == nullptr || info->family != functions::Family::kCreation))
    return false;
  if (call.result != format::kNoResult && call.result != 0) return false;
  return call.function != Function::MPI_Comm_create_group;
}

Creation CreationOf(const reader::Call& call) {
  Function operation = functions::WithSmallCounts(call.function);
  // An info is a hint.
  if (operation == Function::MPI_Comm_dup_with_info) operation = Function::MPI_Comm_dup;
  if (operation == Function::MPI_Comm_idup_with_info) operation = Function::MPI_Comm_idup;
  // Of persistent collectives each rank starts as many as it likes.
  return {operation, (call.flags & format::kPersisting) != 0 ? 0 : call.count};
}

std::uint32_t ArgumentsHash(const reader::Call& call) {
  return HasOrdinal(call) && !MakesWindowOrFile(call.function) ? call.signature : 0;
}

}  // namespace ncclwatch::diagnosis
