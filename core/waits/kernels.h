// What the GPUs have been given and have not finished, and for which no reason is known: every rank that it needs has
// launched its part, and nothing of NCCL's is unfinished before it on any of them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/view/view.h"
#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {

// Whether the GPU has come to it, by start marks (NCCLWATCH_GPU=both).
enum class Begun { kUnknown, kNo, kYes };

// What one node has launched on one communicator at once.
struct Kernel {
  int comm = -1, member = -1, node = -1;
  std::vector<const reader::Call*> calls;
  bool met = false;  // its partners are known
  bool open = true;  // nothing is known that it would have to wait for
  Begun begun = Begun::kUnknown;
};

// Of one communicator.
struct Stuck {
  int comm = -1;
  std::vector<Kernel> kernels;
  std::int64_t since_ns = 0;  // the last of them was launched
  std::vector<int> RanksWhere(const View& view, Begun begun) const;
};
std::vector<Stuck> FindStuck(const View& view, const WaitGraph& graph);

}  // namespace ncclwatch::diagnosis
