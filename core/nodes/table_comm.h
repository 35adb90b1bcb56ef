// One communicator in the hub's table: how its members stand, and where their chains part.
#pragma once

#include <cstdint>
#include <vector>

#include "core/nodes/table.h"

namespace ncclwatch::nodes {

bool Counts(const MemberRow& row);   // neither destroyed, aborted nor failed
bool Pending(const MemberRow& row);  // inside a call, or its GPU is

struct Table::Comm {
  std::uint64_t id = 0;
  std::uint32_t size = 0;
  std::vector<Ref> refs;
  std::vector<Check> checks;
  std::int64_t changed_ns = 0;
  bool moved = true;  // since it was looked at
  Front front;
  bool differs = false;
  diagnosis::LiveCompare::What what{};
  std::uint64_t position = 0;
  std::int64_t silent_until_ns = 0;
  std::int64_t silence_ns = 250'000'000;  // doubled each time, as LiveCompare's

  void Differs(diagnosis::LiveCompare::What how, std::uint64_t at) {
    if (differs && position <= at) return;
    differs = true;
    what = how;
    position = at;
  }
  void Compare(const Check& check);
  void Look();
  void LookForEmpties();
};

}  // namespace ncclwatch::nodes
