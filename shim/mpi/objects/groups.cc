#include "shim/mpi/objects/groups.h"

#include <numeric>

#include "shim/mpi/core/real.h"
#include "shim/mpi/objects/checks.h"
#include "shim/mpi/objects/objects.h"

namespace ncclwatch::shim::mpi {
namespace {

int SizeOf(MPI_Group group) {
  auto* ask = NCCLWATCH_REAL(MPI_Group_size);
  int size = 0;
  if (group == MPI_GROUP_EMPTY) return 0;
  return ask && IsAlive(ObjectKind::kGroup, Bits(group)) && ask(group, &size) == MPI_SUCCESS ? size : -1;
}

class Named {
 public:
  Named(Call& call, int size) : call_(call), named_(static_cast<std::size_t>(size)) {}
  // False: it is wrong, and said.
  bool Add(std::int64_t rank) {
    const auto size = static_cast<std::int64_t>(named_.size());
    if (rank < 0 || rank >= size) {
      Report(call_, {.wrong = Wrong::kGroupRankOutOfRange, .value = rank, .limit = size});
      return false;
    }
    if (named_[static_cast<std::size_t>(rank)]) {
      Report(call_, {.wrong = Wrong::kGroupRankTwice, .value = rank});
      return false;
    }
    named_[static_cast<std::size_t>(rank)] = true;
    return true;
  }

 private:
  Call& call_;
  std::vector<bool> named_;
};

}  // namespace

bool RanksIn(MPI_Group group, MPI_Group whole, std::vector<int>* ranks) {
  auto* size_of = NCCLWATCH_REAL(MPI_Group_size);
  auto* translate = NCCLWATCH_REAL(MPI_Group_translate_ranks);
  int size = 0;
  ranks->clear();
  if (!size_of || !translate || size_of(group, &size) != MPI_SUCCESS) return false;
  if (size == 0) return true;
  std::vector<int> own(static_cast<std::size_t>(size));
  std::iota(own.begin(), own.end(), 0);
  ranks->resize(own.size());
  return translate(group, size, own.data(), whole, ranks->data()) == MPI_SUCCESS;
}

void CheckMembers(Call& call, MPI_Group group, int number, const int* ranks) {
  CheckCount(call, number);
  const int size = SizeOf(group);
  if (size < 0 || !ranks) return;
  try {
    Named named(call, size);
    for (int i = 0; i < number; ++i)
      if (!named.Add(ranks[i])) return;
  } catch (...) {
    return;  // out of memory: MPI looks too
  }
}

void CheckRanges(Call& call, MPI_Group group, int number, int (*ranges)[3]) {
  CheckCount(call, number);
  const int size = SizeOf(group);
  if (size < 0 || !ranges) return;
  try {
    Named named(call, size);
    for (int i = 0; i < number; ++i) {
      const std::int64_t first = ranges[i][0], last = ranges[i][1], stride = ranges[i][2];
      if (stride == 0) return Report(call, {.wrong = Wrong::kStrideOfZero, .value = first});
      for (std::int64_t rank = first; stride > 0 ? rank <= last : rank >= last; rank += stride)
        if (!named.Add(rank)) return;
    }
  } catch (...) {
    return;
  }
}

}  // namespace ncclwatch::shim::mpi
