#include "shim/mpi/groups.h"

#include <numeric>

#include "shim/mpi/real.h"

namespace ncclwatch::shim::mpi {

bool RanksIn(MPI_Group group, MPI_Group whole, std::vector<int>* ranks) {
  auto* size_of = NCCLWATCH_ASK(MPI_Group_size);
  auto* translate = NCCLWATCH_ASK(MPI_Group_translate_ranks);
  int size = 0;
  ranks->clear();
  if (!size_of || !translate || size_of(group, &size) != MPI_SUCCESS) return false;
  if (size == 0) return true;
  std::vector<int> own(static_cast<std::size_t>(size));
  std::iota(own.begin(), own.end(), 0);
  ranks->resize(own.size());
  return translate(group, size, own.data(), whole, ranks->data()) == MPI_SUCCESS;
}

}  // namespace ncclwatch::shim::mpi
