// What exports to Chakra and OTF2 write of a call beside what those formats have a place for: attributes with the names
// of `trace --json`, by which an import gives the same call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

namespace ncclwatch::analyzer::import {

enum class FieldType : std::uint8_t { kNumber, kText };

struct CallField {
  std::string_view name;
  FieldType type;
};
enum class Field : std::uint8_t {
  kSeq,
  kPosition,
  kCount,
  kBytes,
  kDtype,
  kReduction,
  kRoot,
  kPeer,
  kTag,
  kCommunicator,
  kCommunicatorRank,
  kCommunicatorSize,
  kCommunicatorFlags,
  kLabel,
  kStream,
  kGroup,
  kState,
  kPending,
  kResult,
  kFlags,
  kLibrary,
  kCompletedNs,
  kWaiter,
  kSignature,
  kSiteText,
  kThread,
  kTimeNs,
  kDurationNs,
  kReturnedNs,
  kKernelNs,
  kKernelClock,
  kAlgorithm,
  kProtocol,
  kChannels,
  kHost,
  kPid,
  kRank,
};
inline constexpr CallField kCallFields[] = {
    {"seq", FieldType::kNumber},
    {"position", FieldType::kNumber},
    {"count", FieldType::kNumber},
    {"bytes", FieldType::kNumber},
    {"dtype", FieldType::kText},
    {"reduction", FieldType::kText},
    {"root", FieldType::kNumber},
    {"peer", FieldType::kNumber},
    {"tag", FieldType::kNumber},
    {"communicator", FieldType::kText},
    {"communicator_rank", FieldType::kNumber},
    {"communicator_size", FieldType::kNumber},
    {"communicator_flags", FieldType::kText},  // with spaces between them, as `flags`
    {"label", FieldType::kText},
    {"stream", FieldType::kText},
    {"group", FieldType::kNumber},
    {"state", FieldType::kText},
    {"pending", FieldType::kNumber},
    {"result", FieldType::kText},
    {"flags", FieldType::kText},
    {"library", FieldType::kText},
    {"completed_ns", FieldType::kNumber},
    {"waiter", FieldType::kNumber},
    {"signature", FieldType::kNumber},
    {"site_text", FieldType::kText},
    {"thread", FieldType::kNumber},
    {"time_ns", FieldType::kNumber},
    {"duration_ns", FieldType::kNumber},
    {"returned_ns", FieldType::kNumber},
    {"kernel_ns", FieldType::kNumber},
    {"kernel_clock", FieldType::kText},
    {"algorithm", FieldType::kText},
    {"protocol", FieldType::kText},
    {"channels", FieldType::kNumber},
    {"host", FieldType::kText},
    {"pid", FieldType::kNumber},
    {"rank", FieldType::kNumber},
};
static_assert(std::size(kCallFields) == static_cast<std::size_t>(Field::kRank) + 1);
constexpr const CallField& Described(Field field) { return kCallFields[static_cast<std::size_t>(field)]; }

inline constexpr char kCreator[] = "ncclwatch";  // whose traces have them

// The line of `trace --json` that `fields`, an object of them, were made of; with "op" among them.
nlohmann::json LineOf(nlohmann::json fields);

}  // namespace ncclwatch::analyzer::import
