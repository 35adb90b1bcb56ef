// What a call of MPI sends, receives, begins and waits for, as OTF2's records between the call's entry and its end.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <otf2/otf2.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/export/calls/otf2_communicators.h"
#include "analyzer/trace/facts.h"

namespace ncclwatch::analyzer::exporting {

class Otf2Mpi {
 public:
  explicit Otf2Mpi(const Otf2Communicators& communicators) : communicators_(communicators) {}

  // Behind the entry; Leave in front of the end. They return how many records they wrote.
  std::uint64_t Enter(OTF2_EvtWriter* to, OTF2_TimeStamp time, const MergedCall& merged);
  std::uint64_t Leave(OTF2_EvtWriter* to, OTF2_TimeStamp time, const MergedCall& merged);
  // Messages and collectives without a record, because not all ranks of their communicator are recorded.
  std::uint64_t not_named() const { return not_named_; }

 private:
  struct Transfer {
    OTF2_CommRef communicator = OTF2_UNDEFINED_COMM;
    std::uint32_t rank = 0, size = 0;
    reader::Call call;
  };
  static std::uint64_t End(OTF2_EvtWriter* to, OTF2_TimeStamp time, const Transfer& transfer);
  bool TransferOf(const MergedCall& merged, Transfer* transfer) const;

  const Otf2Communicators& communicators_;
  // By process and slot of the call that waits: what it ends.
  absl::flat_hash_map<std::pair<std::size_t, std::uint64_t>, std::vector<Transfer>> waited_for_;
  std::uint64_t not_named_ = 0;
};

}  // namespace ncclwatch::analyzer::exporting
