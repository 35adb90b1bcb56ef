// What the program tells us of itself (ncclwatch/annotate.h).
#include <cstdint>

#include "shim/base/export.h"
#include "shim/base/process.h"
#include "shim/black_box/table.h"

using namespace ncclwatch::shim;

extern "C" NCCLWATCH_EXPORT void ncclwatch_set_label(void* communicator, const char* name) {
  Box* const box = CurrentBox();
  if (!box) return;
  // An MPI_Comm of MPICH is an int: its sign may have been carried on.
  const auto handle = reinterpret_cast<std::uint64_t>(communicator);
  std::uint32_t index = box->handles.Find(handle);
  if (index == ncclwatch::format::kNoCommunicator) index = box->handles.Find(static_cast<std::uint32_t>(handle));
  if (index != ncclwatch::format::kNoCommunicator) SetLabel(box->communicators[index], name ? name : "");
}
