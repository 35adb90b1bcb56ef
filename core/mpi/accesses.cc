#include "core/mpi/accesses.h"

#include "ncclwatch/functions/types.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

constexpr std::uint8_t NumberOf(std::string_view name) {
  for (const functions::NumberedName& each : functions::kMpiOperators)
    if (each.name == name) return each.number;
  return format::kNoReduction;
}
constexpr std::uint8_t kNoOperator = NumberOf("MPI_NO_OP");

}  // namespace

bool IsAccess(const Call& call) {
  const functions::FunctionInfo* info = functions::Find(call.function);
  return info != nullptr && info->family == functions::Family::kOneSided && functions::IsMpi(call.function);
}

Does WhatItDoes(const Call& call) {
  switch (functions::WithSmallCounts(call.function)) {
    case Function::MPI_Get:
    case Function::MPI_Rget: return Does::kReads;
    case Function::MPI_Put:
    case Function::MPI_Rput: return Does::kWrites;
    default: return Does::kUpdates;
  }
}

bool OnlyReads(const Call& call) {
  const Does does = WhatItDoes(call);
  return does == Does::kReads || (does == Does::kUpdates && call.reduction == kNoOperator);
}

std::uint8_t NoOperator() { return kNoOperator; }

std::optional<Extent> ExtentOf(const CommView& comm, const Call& access) {
  if (access.bytes == 0 || access.root < 0 || (access.flags & format::kNoPartner) != 0) return std::nullopt;
  const Member* target = comm.OfRank(static_cast<std::uint32_t>(access.root));
  if (target == nullptr || target->comm->color <= 0) return std::nullopt;
  const std::uint64_t begin = access.chain * static_cast<std::uint64_t>(target->comm->color);
  return Extent{begin, begin + access.bytes};
}

std::optional<std::uint64_t> MemoryOf(const Member& owner) {
  if (owner.comm->memory == 0) return std::nullopt;
  return owner.comm->memory - 1;
}

}  // namespace ncclwatch::diagnosis
