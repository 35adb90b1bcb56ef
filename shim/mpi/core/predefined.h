// MPI's own datatypes and operators, by handle. Learned in MPI_Init and never changed afterwards: read without a lock,
// on the way of nearly every call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/mpi/core/abi.h"

namespace ncclwatch::shim::mpi {

class Predefined {
 public:
  struct Entry {
    std::uint64_t handle = 0;
    std::uint16_t bytes = 0;   // of a type
    std::uint16_t extent = 0;  // likewise
    std::uint8_t number = 0;   // functions::Datatype... or Reduction...
    bool whole = false;        // Datatype::whole
    std::uint8_t pair = 0;     // of a type of two elements, MPI_DOUBLE_INT: its number among these, from 1
  };

  const Entry* Find(std::uint64_t handle) const {
    for (std::size_t at = Home(handle); entries_[at].handle != 0; at = (at + 1) % kRoom)
      if (entries_[at].handle == handle) return &entries_[at];
    return nullptr;
  }
  void Add(const Entry& entry) {
    if (entry.handle == 0 || Find(entry.handle) || used_ + 1 == kRoom) return;
    std::size_t at = Home(entry.handle);
    while (entries_[at].handle != 0) at = (at + 1) % kRoom;
    entries_[at] = entry;
    ++used_;
  }

 private:
  static constexpr std::size_t kRoom = 256;
  static std::size_t Home(std::uint64_t handle) { return handle * 0x9e3779b97f4a7c15ull >> 56; }
  Entry entries_[kRoom];
  std::size_t used_ = 0;
};

extern Predefined predefined_types;
extern Predefined predefined_operators;

inline bool IsPredefined(MPI_Datatype type) { return predefined_types.Find(Bits(type)) != nullptr; }

}  // namespace ncclwatch::shim::mpi
