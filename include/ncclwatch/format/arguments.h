// What a call that makes a communicator of MPI says of its arguments: parts (parts.h) in the place of what is sent,
// each with `dtype` which one it is, `element` where it stands in an array, and `bytes` its value. Of an array with
// more than kMostOfArray elements one part has a hash of all, and kWholeArray. The record's `signature` is a hash of
// those in which all ranks must agree, 0: there are none.
#pragma once

#include <cstdint>
#include <string_view>

#include "ncclwatch/format/parts.h"

namespace ncclwatch::format {

inline constexpr std::uint32_t kMostOfArray = 24;
inline constexpr std::uint16_t kWholeArray = 0xffff;

// Numbers are part of the black-box format.
enum class Argument : std::uint16_t {
  kDimensions = 1,
  kDims = 2,
  kPeriods = 3,
  kReorder = 4,
  kNodes = 5,
  kIndex = 6,
  kEdges = 7,
  kSplitType = 8,
  kLocalLeader = 9,
  kTag = 10,
  kRemainDims = 11,
  // Of the leader of a group in MPI_Intercomm_create, who alone gives them: `what` both leaders' ranks in the peer
  // communicator, the lower one first, 16 bits each; `bytes` a hash of these and that communicator's identity.
  kLeaders = 12,
};
constexpr std::string_view Name(Argument argument) {
  constexpr std::string_view kNames[] = {"",       "ndims",       "dims",   "periods",    "reorder",
                                         "nnodes", "index",       "edges",  "split_type", "local_leader",
                                         "tag",    "remain_dims", "leaders"};
  const auto number = static_cast<std::size_t>(argument);
  return number < std::size(kNames) ? kNames[number] : "";
}
constexpr bool IsArray(Argument argument) {
  return argument == Argument::kDims || argument == Argument::kPeriods || argument == Argument::kIndex ||
         argument == Argument::kEdges || argument == Argument::kRemainDims;
}

}  // namespace ncclwatch::format
