#include "watchdog/diagnosis/creations.h"

namespace ncclwatch::diagnosis {

using functions::Function;

// MPI_Comm_create_group is called by the group alone; what sessions and other worlds bring is made from no
// communicator.
bool HasOrdinal(const reader::Call& call) {
  if (!functions::IsMpi(call.function) || call.communicator == format::kNoCommunicator) return false;
  const functions::FunctionInfo* info = functions::Find(call.function);
  if (info == nullptr || info->family != functions::Family::kCreation) return false;
  if (call.result != format::kNoResult && call.result != 0) return false;
  return call.function != Function::MPI_Comm_create_group;
}

Creation CreationOf(const reader::Call& call) {
  Function operation = call.function;
  // An info is a hint.
  if (operation == Function::MPI_Comm_dup_with_info) operation = Function::MPI_Comm_dup;
  if (operation == Function::MPI_Comm_idup_with_info) operation = Function::MPI_Comm_idup;
  return {operation, call.count};
}

std::uint32_t AgreedOf(const reader::Call& call) { return HasOrdinal(call) ? call.signature : 0; }

}  // namespace ncclwatch::diagnosis
