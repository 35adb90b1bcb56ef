// The arguments of a call that makes a communicator in which all of its ranks must agree (format/arguments.h).
#pragma once

#include <cstdint>

#include "ncclwatch/format/arguments.h"
#include "shim/mpi/record/parts.h"

namespace ncclwatch::shim::mpi {

using format::Argument;

class CollectiveArguments {
 public:
  void Add(Argument which, std::int64_t value);
  // Of truths, that they are some is all that counts. Nothing is read of null.
  void AddAll(Argument which, const int* values, std::int64_t count, bool truths = false);
  // Told, and not the same on all ranks.
  void Tell(const format::Part& part);

  void WriteHash(Call& call) const;
  void Write(Call& call) const;
  std::uint32_t size() const { return size_; }
  void AddTo(Parts& parts) const;

 private:
  void Mix(Argument which, std::uint64_t value);

  static constexpr std::uint32_t kMost = 2 * format::kMostOfArray + 8;
  format::Part parts_[kMost];
  std::uint32_t size_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace ncclwatch::shim::mpi
