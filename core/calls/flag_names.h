// The words for the flags of a record, as `trace` prints them and an import reads them back.
#pragma once

#include <cstdint>
#include <string_view>

#include "ncclwatch/format/record.h"

namespace ncclwatch::diagnosis {

struct FlagName {
  std::uint32_t flag;
  std::string_view name;
};
inline constexpr FlagName kFlagNames[] = {
    {format::kEmpty, "empty"},
    {format::kOneRank, "one_rank"},
    {format::kCaptured, "captured"},
    {format::kNonBlocking, "non_blocking"},
    {format::kGrouped, "grouped"},
    {format::kMarkUnavailable, "no_mark"},
    {format::kRequest, "request"},
    {format::kAnySource, "any_source"},
    {format::kAnyTag, "any_tag"},
    {format::kSynchronous, "synchronous"},
    {format::kBuffered, "buffered"},
    {format::kReady, "ready"},
    {format::kAnyDoes, "any_does"},
    {format::kPolls, "polls"},
    {format::kPersisting, "persistent"},
    {format::kCancelled, "cancelled"},
    {format::kForgotten, "freed"},
    {format::kNoPartner, "no_partner"},
    {format::kMadeSynchronous, "made_synchronous"},
    {format::kNoStatus, "no_status"},
    {format::kTookPart, "took_part"},
    {format::kAskedAbout, "asked_about"},
};

}  // namespace ncclwatch::diagnosis
