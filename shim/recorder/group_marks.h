// GPU marks of what one group launches: one for each communicator and stream, shared by the calls on them.
#pragma once

#include <cstdint>

#include "shim/black_box/groups.h"
#include "shim/recorder/marks.h"

namespace ncclwatch::shim {

struct GroupMark {
  std::uint32_t index;
  std::uint32_t generation;
  std::uint64_t stream;
  device::Outcome outcome;
  std::uint64_t number;  // with kEnqueued: of an end mark its ticket
};
// More pairs than this in one group are beyond any program that we know; their calls are recorded without marks.
inline constexpr int kMarksPerGroup = 64;

template <device::Outcome (*enqueue)(Box&, const Operation&, std::uint64_t*)>
class GroupMarks {
 public:
  // Null: no room.
  const GroupMark* For(Box& box, const Operation& operation) {
    for (int i = used_ - 1; i >= 0; --i)
      if (marks_[i].index == operation.index && marks_[i].generation == operation.generation &&
          marks_[i].stream == operation.stream)
        return &marks_[i];
    if (used_ == kMarksPerGroup) return nullptr;
    GroupMark& mark = marks_[used_++];
    mark = {operation.index, operation.generation, operation.stream, device::Outcome::kNotWanted, 0};
    mark.outcome = enqueue(box, operation, &mark.number);
    return &mark;
  }

 private:
  int used_ = 0;
  GroupMark marks_[kMarksPerGroup];
};

}  // namespace ncclwatch::shim
