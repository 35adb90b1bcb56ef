// What a wrapper knows of one call, and the two halves of recording it. The wrapper fills the first part; Enter and
// Leave keep the second between them. Lives on the stack of the calling thread.
#pragma once

#include <cstdint>

#include "ncclwatch/format/black_box.h"
#include "ncclwatch/functions/function.h"
#include "shim/black_box/box.h"

namespace ncclwatch::shim {

struct Group;

// The arguments of a creating call, as far as they make an identity.
struct Creation {
  const char* ids = nullptr;  // unique ids of 128 bytes, null if none
  void** out = nullptr;       // where NCCL leaves the new handle (or, for InitAll, `size` of them)
  const void* config = nullptr;
  const int* list = nullptr;  // InitAll: devices; Shrink: excluded ranks
  int list_count = 0;
  int rank = format::kNoRank;
  int size = 0;
  int color = 0;
};

struct Call {
  functions::Function function{};
  functions::Family family{};
  std::uint32_t library = 0;
  std::uint64_t site = 0;
  std::uint64_t communicator = 0;  // ncclComm_t
  std::uint64_t stream = 0;
  std::uint64_t count = 0;
  std::uint64_t fingerprint = 0;  // collectives
  std::int32_t root = format::kNoRank;
  std::uint8_t dtype = format::kNoType;
  std::uint8_t reduction = format::kNoReduction;
  const Creation* creation = nullptr;

  // From here on: between Enter and Leave.
  std::uint32_t flags = 0;
  std::uint32_t index = format::kNoCommunicator;
  std::uint32_t generation = 0;
  std::uint32_t created = format::kNoCommunicator;  // table entry of the (first) communicator being made
  std::uint64_t position = 0;
  std::uint64_t chain = 0;  // of the communicator after this call
  std::uint64_t chain_before = 0;
  std::uint64_t slot = kNoSlot;  // none while switched off
  std::uint64_t group = 0;
  bool closes = false;       // the outermost GroupEnd
  Group* closing = nullptr;  // what its group has collected
};

}  // namespace ncclwatch::shim
