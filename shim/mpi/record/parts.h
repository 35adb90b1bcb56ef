// What a call says of single ranks (format/parts.h): written beside its record, before that is committed.
#pragma once

#include <cstdint>

#include "shim/mpi/core/call.h"
#include "shim/mpi/objects/datatypes.h"

namespace ncclwatch::shim::mpi {

// Those of a persistent call, until it is started.
struct SavedParts {
  format::Part* parts = nullptr;
  std::uint32_t sends = 0;
  std::uint32_t receives = 0;
};
void SaveParts(std::uint64_t request, const SavedParts& saved);
void TellSavedParts(Call& call, std::uint64_t request);
void DropSavedParts(std::uint64_t request);
void Discard(const SavedParts& saved);

// The amounts of one call, or the members of a group. From Done() on its record has them, if it is made right then.
class Parts {
 public:
  // Nothing is kept where the process is not watched, or of more ranks than kMostParts.
  Parts(Call& call, std::uint32_t sends, std::uint32_t receives);
  // In order: what is sent, then what is received.
  void Add(const format::Part& part);
  void Done();
  bool kept() const { return kept_; }

 private:
  Call& call_;
  std::uint64_t first_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t sum_ = 0;
  bool kept_ = false;
};

// The amounts of a call for one rank after the other: most are of one type, and many are equal.
class Amounts {
 public:
  format::Part Of(std::int64_t count, MPI_Datatype type);

 private:
  std::uint64_t type_bits_ = 0;
  Datatype type_;
  bool any_ = false;
  bool known_ = false;
  std::int64_t count_ = -1;
  format::Part part_{};
};

}  // namespace ncclwatch::shim::mpi
