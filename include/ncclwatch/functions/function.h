// Every wrapped function, by name and number, without any header of NCCL: what black boxes and diagnoses speak of.
// The rows are in nccl.def; numbers are part of the black-box format and never change.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace ncclwatch::functions {

enum class Family : std::uint8_t {
  kCollective,    // every rank gives the same arguments
  kRooted,        // likewise, and a root
  kPointToPoint,  // ncclSend, ncclRecv
  kGroup,         // ncclGroupStart, ncclGroupEnd, ...
  kCreation,      // makes a communicator
  kLifecycle,     // finalize, destroy, abort, revoke, suspend, ...
  kReduction,     // user-made reductions
  kMemory,        // buffers, registrations, windows
  kOneSided,      // ncclPutSignal, ncclSignal, ncclWaitSignal
  kQuery,         // asks and changes nothing
};

enum class Function : std::uint32_t {
  kNone = 0,
#define HOOK(number, name, family, ...) name = number,
#include "ncclwatch/functions/nccl.def"
#undef HOOK
};

struct FunctionInfo {
  Function function;
  std::string_view name;  // "ncclAllReduce"
  Family family;
};

inline constexpr FunctionInfo kFunctions[] = {
#define HOOK(number, name, family, ...) {Function::name, #name, Family::family},
#include "ncclwatch/functions/nccl.def"
#undef HOOK
};

// Row of a number in kFunctions, plus one: asked for every record of a black box.
inline constexpr std::array<std::uint8_t, 256> kRowOf = [] {
  std::array<std::uint8_t, 256> rows{};
  for (std::size_t i = 0; i < std::size(kFunctions); ++i)
    rows.at(static_cast<std::uint32_t>(kFunctions[i].function)) = static_cast<std::uint8_t>(i + 1);
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
  return name.starts_with("nccl") ? name.substr(4) : name;
}

// Takes a position in its communicator's sequence of collectives.
constexpr bool IsCollective(Function function) {
  const FunctionInfo* info = Find(function);
  return info && (info->family == Family::kCollective || info->family == Family::kRooted);
}

}  // namespace ncclwatch::functions
