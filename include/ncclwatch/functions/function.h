// Every function of NCCL and MPI, by name and number, without any of their headers: what black boxes and diagnoses
// speak of. The rows are in nccl.def and mpi.def; numbers are part of the black-box format and never change.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace ncclwatch::functions {

enum class Family : std::uint8_t {
  kCollective,    // every rank gives the same arguments
  kRooted,        // likewise, and a root
  kPointToPoint,  // sends and receives
  kGroup,         // ncclGroupStart, ncclGroupEnd, ...
  kCreation,      // makes a communicator
  kLifecycle,     // finalize, destroy, abort, revoke, suspend, ...
  kReduction,     // user-made reductions
  kMemory,        // buffers, registrations, windows
  kOneSided,      // ncclPutSignal, ncclSignal, ncclWaitSignal
  kQuery,         // asks and changes nothing

  // Of MPI alone.
  kLife,        // MPI_Init, MPI_Finalize, MPI_Abort
  kProbe,       // asks whether a message has come, or waits for one
  kCompletion,  // waits for requests, or tests them
  kRequest,     // starts, cancels or frees requests
  kLabel,       // names a communicator
  kDatatype,
  kObject,  // groups, operators, infos, error handlers, attribute keys
  kWindow,  // and its epochs
  kFile,
};

enum class Function : std::uint32_t {
  kNone = 0,
// NOLINTBEGIN(bugprone-macro-parentheses): they declare the name
#define HOOK(number, name, family, ...) name = number,
#define QUERY(number, name) name = number,
// NOLINTEND(bugprone-macro-parentheses)
#include "ncclwatch/functions/mpi.def"
#include "ncclwatch/functions/nccl.def"
#undef HOOK
};
inline constexpr std::uint32_t kFirstOfMpi = 1000;       // NCCL's numbers are below it
inline constexpr std::uint32_t kFirstLargeCount = 2000;  // MPI_Foo_c has MPI_Foo's number plus 1000

struct FunctionInfo {
  Function function;
  std::string_view name;  // "ncclAllReduce"
  Family family;
};

inline constexpr FunctionInfo kFunctions[] = {
#define HOOK(number, name, family, ...) {Function::name, #name, Family::family},
#define QUERY(number, name) {Function::name, #name, Family::kQuery},
#include "ncclwatch/functions/mpi.def"
#include "ncclwatch/functions/nccl.def"
#undef HOOK
};

// Row of a number in kFunctions, plus one: asked for every record of a black box.
inline constexpr std::array<std::uint16_t, 3072> kRowOf = [] {
  std::array<std::uint16_t, 3072> rows{};
  for (std::size_t i = 0; i < std::size(kFunctions); ++i)
    rows.at(static_cast<std::uint32_t>(kFunctions[i].function)) = static_cast<std::uint16_t>(i + 1);
  return rows;
}();

constexpr const FunctionInfo* Find(Function function) {
  const auto number = static_cast<std::uint32_t>(function);
  const std::size_t row = number < kRowOf.size() ? kRowOf[number] : 0;
  return row == 0 ? nullptr : &kFunctions[row - 1];
}

// "ncclAllReduce"; "function 4711" is not known here: "?".
constexpr std::string_view FullName(Function function) {
  const FunctionInfo* info = Find(function);
  return info ? info->name : std::string_view("?");
}

// "AllReduce": as diagnoses and the documented JSON say it.
constexpr std::string_view OpName(Function function) {
  std::string_view name = FullName(function);
  return name.starts_with("nccl") || name.starts_with("MPI_") ? name.substr(4) : name;
}

constexpr bool IsMpi(Function function) { return static_cast<std::uint32_t>(function) >= kFirstOfMpi; }
constexpr Function WithSmallCounts(Function function) {
  const auto number = static_cast<std::uint32_t>(function);
  return number < kFirstLargeCount ? function : static_cast<Function>(number - (kFirstLargeCount - kFirstOfMpi));
}

// A send or a receive.
constexpr bool IsMessage(Function function) {
  const FunctionInfo* info = Find(function);
  return info && info->family == Family::kPointToPoint;
}

constexpr bool IsProbe(Function function) {
  const FunctionInfo* info = Find(function);
  return info && info->family == Family::kProbe;
}

// Takes a position in its communicator's sequence of collectives.
constexpr bool IsCollective(Function function) {
  const FunctionInfo* info = Find(function);
  return info && (info->family == Family::kCollective || info->family == Family::kRooted);
}

}  // namespace ncclwatch::functions
