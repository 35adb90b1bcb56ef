// What a call's arguments say, by family: NCCL gives every argument of a meaning its own type, so that the first
// argument of a type is the one that counts.
#pragma once

#include <tuple>
#include <type_traits>

#include "ncclwatch/format/fingerprint.h"
#include "shim/base/nccl_compat.h"
#include "shim/black_box/call.h"

namespace ncclwatch::shim {

template <class T, class First, class... Rest>
constexpr decltype(auto) FirstOf(const First& first, const Rest&... rest) {
  if constexpr (std::is_same_v<T, First>) {
    return (first);
  } else {
    static_assert(sizeof...(Rest) > 0, "no argument of this type");
    return FirstOf<T>(rest...);
  }
}
template <class T, class... A>
inline constexpr bool kHas = (std::is_same_v<T, A> || ...);

template <class T>
std::uint64_t AsBits(T* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

constexpr std::uint8_t Reduction(ncclRedOp_t op) {
  const auto number = static_cast<unsigned>(op);
  return number < unsigned{ncclNumOps} ? static_cast<std::uint8_t>(number) : format::kUserReduction;
}

// Everything that a type gives away.
template <class... A>
void DescribeCommon(Call& call, const A&... arguments) {
  if constexpr (kHas<ncclComm_t, A...>) call.communicator = AsBits(FirstOf<ncclComm_t>(arguments...));
  if constexpr (kHas<cudaStream_t, A...>) call.stream = AsBits(FirstOf<cudaStream_t>(arguments...));
  if constexpr (kHas<std::size_t, A...>) call.count = FirstOf<std::size_t>(arguments...);
  if constexpr (kHas<ncclDataType_t, A...>)
    call.dtype = static_cast<std::uint8_t>(FirstOf<ncclDataType_t>(arguments...));
}

template <functions::Family family>
using Of = std::integral_constant<functions::Family, family>;

template <class... A>
void Describe(Of<functions::Family::kCollective>, Call& call, const A&... arguments) {
  DescribeCommon(call, arguments...);
  if constexpr (kHas<ncclRedOp_t, A...>) call.reduction = Reduction(FirstOf<ncclRedOp_t>(arguments...));
}
template <class... A>
void Describe(Of<functions::Family::kRooted>, Call& call, const A&... arguments) {
  Describe(Of<functions::Family::kCollective>{}, call, arguments...);
  call.root = FirstOf<int>(arguments...);
}
template <class... A>
void Describe(Of<functions::Family::kPointToPoint>, Call& call, const A&... arguments) {
  DescribeCommon(call, arguments...);
  call.root = FirstOf<int>(arguments...);
}
template <class... A>
void Describe(Of<functions::Family::kOneSided>, Call& call, const A&... arguments) {
  DescribeCommon(call, arguments...);
  if constexpr (!kHas<ncclWaitSignalDesc_t*, A...>) call.root = FirstOf<int>(arguments...);
}
template <class... A>
void Describe(Of<functions::Family::kGroup>, Call&, const A&...) {}
template <class... A>
void Describe(Of<functions::Family::kLifecycle>, Call& call, const A&... arguments) {
  DescribeCommon(call, arguments...);
}
template <class... A>
void Describe(Of<functions::Family::kReduction>, Call& call, const A&... arguments) {
  DescribeCommon(call, arguments...);
}
template <class... A>
void Describe(Of<functions::Family::kMemory>, Call& call, const A&... arguments) {
  DescribeCommon(call, arguments...);
}

// Creating calls differ too much for types to tell: one overload a signature.
inline void DescribeCreation(Call&, Creation& made, ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank,
                             ncclConfig_t* config = nullptr) {
  made = {.ids = id.internal, .out = reinterpret_cast<void**>(comm), .config = config, .rank = rank, .size = ranks};
}
inline void DescribeCreation(Call&, Creation& made, ncclComm_t* comm, int ranks, int rank, int, ncclUniqueId* ids,
                             ncclConfig_t* config) {
  // NCCL's own hash of the communicator is of the first id alone.
  made = {.ids = ids ? ids->internal : nullptr,
          .out = reinterpret_cast<void**>(comm),
          .config = config,
          .rank = rank,
          .size = ranks};
}
inline void DescribeCreation(Call&, Creation& made, ncclComm_t* comms, int devices, const int* list) {
  made = {.out = reinterpret_cast<void**>(comms), .list = list, .list_count = devices, .size = devices};
}
inline void DescribeCreation(Call& call, Creation& made, ncclComm_t parent, int color, int, ncclComm_t* comm,
                             ncclConfig_t* config) {
  call.communicator = AsBits(parent);
  made = {.out = reinterpret_cast<void**>(comm), .config = config, .color = color};
}
inline void DescribeCreation(Call& call, Creation& made, ncclComm_t parent, int* excluded, int count, ncclComm_t* comm,
                             ncclConfig_t* config, int) {
  call.communicator = AsBits(parent);
  made = {.out = reinterpret_cast<void**>(comm), .config = config, .list = excluded, .list_count = count};
}
inline void DescribeCreation(Call& call, Creation& made, ncclComm_t parent, int ranks, const ncclUniqueId* id, int rank,
                             ncclComm_t* comm, ncclConfig_t* config) {
  call.communicator = AsBits(parent);
  made = {.ids = id ? id->internal : nullptr,
          .out = reinterpret_cast<void**>(comm),
          .config = config,
          .rank = rank,
          .size = ranks};
}

}  // namespace ncclwatch::shim
