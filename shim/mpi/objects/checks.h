// Whether the arguments of a call are such as the standard allows, as far as this process alone can tell. Asked before
// MPI is; of a call that is right they cost a few comparisons. Between two groups (`inter`) ranks are the other
// group's, whose size is not known here.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <type_traits>

#include "ncclwatch/functions/types.h"
#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/misuse.h"

namespace ncclwatch::shim::mpi {

// A communicator that is not in the table; a type that is not known or must not be used; an operator that is the
// user's.
[[gnu::cold]] void CheckUnknown(Call& call, MPI_Comm comm);
[[gnu::cold]] void CheckUnusable(Call& call, MPI_Datatype type);
void CheckUserOperator(Call& call, MPI_Op op);
// What a rank sends to itself in a collective, by both ends of the one call.
[[gnu::cold]] void CheckOwnPartAlike(Call& call, std::uint64_t sent, MPI_Datatype sent_type, std::uint64_t received,
                                     MPI_Datatype received_type);
[[gnu::cold]] void CheckNoBuffer(Call& call, const void* buffer, std::uint64_t count, MPI_Datatype type);
[[gnu::cold]] void CheckOverlap(Call& call, MPI_Datatype sent_type, MPI_Datatype received_type, std::uint64_t bytes);
[[gnu::cold]] void ReportPeer(Call& call);
[[gnu::cold]] void ReportTag(Call& call, int tag);
extern std::atomic<int> highest_tag;  // MPI_TAG_UB
void LearnHighestTag();               // after MPI_Init

inline bool InRange(const Call& call, int rank) {
  return static_cast<std::uint32_t>(rank) < call.size || call.size == 0 || call.inter;
}

inline void CheckDestination(Call& call) {
  if (InRange(call, call.root) || call.root == MPI_PROC_NULL) [[likely]]
    return;
  ReportPeer(call);
}
inline void CheckSource(Call& call) {
  if (call.root != MPI_ANY_SOURCE) CheckDestination(call);
}
inline void CheckRoot(Call& call) {
  if (InRange(call, call.root)) [[likely]]
    return;
  Report(call, {.wrong = Wrong::kRootOutOfRange, .value = call.root, .limit = call.size});
}
inline void CheckTag(Call& call) {
  if (call.tag >= 0 && call.tag <= highest_tag.load(std::memory_order_relaxed)) [[likely]]
    return;
  ReportTag(call, call.tag);
}
inline void CheckReceivedTag(Call& call) {
  if (call.tag != MPI_ANY_TAG) CheckTag(call);
}

template <class Count>
void CheckCount(Call& call, Count count) {
  if constexpr (std::is_signed_v<Count>)
    if (count < 0 && !call.inter) [[unlikely]]
      Report(call, {.wrong = Wrong::kNegativeCount, .value = count});
}

// Null is MPI_BOTTOM, which only types with addresses of their own go with. MPI_IN_PLACE is for some buffers of some
// collectives alone, of which this is not asked.
inline void CheckBuffer(Call& call, const void* buffer, std::uint64_t count, MPI_Datatype type) {
  if ((!buffer || buffer == MPI_IN_PLACE) && count != 0 && !call.inter) [[unlikely]]
    CheckNoBuffer(call, buffer, count, type);
}

struct Span {
  const void* buffer;
  std::uint64_t bytes;
  MPI_Datatype type;
};
// What is sent and what is received into must lie apart.
inline void CheckApart(Call& call, const Span& sent, const Span& received) {
  const auto from = reinterpret_cast<std::uintptr_t>(sent.buffer),
             to = reinterpret_cast<std::uintptr_t>(received.buffer);
  if (from >= to + received.bytes || to >= from + sent.bytes || call.inter || from == 0) [[likely]]
    return;
  CheckOverlap(call, sent.type, received.type, std::min(from + sent.bytes, to + received.bytes) - std::max(from, to));
}

// Which predefined operators go with which predefined types (MPI 4.0, 6.9.2).
enum TypeClass : std::uint8_t { kIntegers = 1, kReals = 2, kLogicals = 4, kComplexes = 8, kBytes = 16, kPairs = 32 };
inline constexpr std::uint8_t kAnyClass = 0xff;
constexpr std::uint8_t ClassOfType(std::string_view name) {
  constexpr auto any = [](std::string_view which, std::initializer_list<std::string_view> names) {
    for (const std::string_view each : names)
      if (which == each) return true;
    return false;
  };
  if (any(name, {"MPI_FLOAT_INT", "MPI_DOUBLE_INT", "MPI_LONG_INT", "MPI_2INT", "MPI_SHORT_INT", "MPI_LONG_DOUBLE_INT",
                 "MPI_2REAL", "MPI_2DOUBLE_PRECISION", "MPI_2INTEGER"}))
    return kPairs;
  if (any(name, {"MPI_FLOAT", "MPI_DOUBLE", "MPI_LONG_DOUBLE", "MPI_REAL", "MPI_DOUBLE_PRECISION", "MPI_REAL4",
                 "MPI_REAL8", "MPI_REAL16"}))
    return kReals;
  if (name.find("COMPLEX") != std::string_view::npos) return kComplexes;
  if (any(name, {"MPI_LOGICAL", "MPI_C_BOOL", "MPI_CXX_BOOL"})) return kLogicals;
  if (name == "MPI_BYTE") return kBytes;
  // Libraries take more than the standard lists.
  if (any(name, {"MPI_CHAR", "MPI_WCHAR", "MPI_CHARACTER", "MPI_PACKED"})) return kAnyClass;
  return kIntegers;
}
// Beyond the standard's list (MPI-3.1, 5.9.2) what a library computes with nevertheless: MPI_LXOR MPICH takes for
// reals, the logical ones, the sums and the extremes Open MPI takes for MPI_BYTE.
constexpr std::uint8_t ClassesOfOperator(std::string_view name) {
#ifdef OPEN_MPI
  constexpr std::uint8_t more = kBytes, exclusive = kBytes;
#else
  constexpr std::uint8_t more = 0, exclusive = kReals;
#endif
  if (name == "MPI_BAND" || name == "MPI_BOR" || name == "MPI_BXOR") return kIntegers | kBytes;
  if (name == "MPI_LAND" || name == "MPI_LOR") return kIntegers | kLogicals | more;
  if (name == "MPI_LXOR") return kIntegers | kLogicals | exclusive;
  if (name == "MPI_MAX" || name == "MPI_MIN") return kIntegers | kReals | more;
  if (name == "MPI_MINLOC" || name == "MPI_MAXLOC") return kPairs;
  if (name == "MPI_SUM" || name == "MPI_PROD") return kIntegers | kReals | kComplexes | more;
  return kAnyClass;
}
inline constexpr auto kTypeClasses = [] {
  std::array<std::uint8_t, 256> classes{};
  classes.fill(kAnyClass);
  for (const functions::NumberedName& each : functions::kMpiDatatypes) classes[each.number] = ClassOfType(each.name);
  return classes;
}();
inline constexpr auto kOperatorClasses = [] {
  std::array<std::uint8_t, 256> classes{};
  classes.fill(kAnyClass);
  for (const functions::NumberedName& each : functions::kMpiOperators)
    classes[each.number] = ClassesOfOperator(each.name);
  return classes;
}();
// Whether what one type sends the other may receive. Several types are the same numbers, and a pair is as good as its
// two elements.
inline bool Alike(std::uint8_t one, std::uint8_t other) {
  const std::uint8_t a = kTypeClasses[one], b = kTypeClasses[other];
  return (a & b) != 0 || ((a | b) & (kBytes | kPairs)) != 0;
}
inline void CheckOperator(Call& call, MPI_Op op) {
  if (call.reduction == format::kUserReduction) return CheckUserOperator(call, op);
  if (call.dtype == functions::kDerivedType || (kTypeClasses[call.dtype] & kOperatorClasses[call.reduction]) != 0)
      [[likely]]
    return;
  Report(call, {.wrong = Wrong::kOperatorForType});
}
// Of reductions, whose predefined operators take no types that were made.
inline void CheckReduction(Call& call, MPI_Op op) {
  if (call.made_type && call.reduction != format::kUserReduction) [[unlikely]]
    return Report(call, {.wrong = Wrong::kOperatorForType});
  CheckOperator(call, op);
}
// Of accesses to windows.
inline void CheckPredefinedOperator(Call& call, MPI_Op op) {
  CheckOperator(call, op);
  if (call.reduction == format::kUserReduction) [[unlikely]]
    Report(call, {.wrong = Wrong::kUserOperator});
}

}  // namespace ncclwatch::shim::mpi
