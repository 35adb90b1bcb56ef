// The words for the flags of a record and of a communicator, as `trace` prints them and an import reads them back.
#pragma once

#include <cstdint>
#include <string_view>

#include "ncclwatch/format/communicator.h"
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
// That its rank is not known, a communicator without a rank says.
inline constexpr FlagName kCommunicatorFlagNames[] = {
    {format::kCommNonBlocking, "non_blocking"},
    {format::kCommIdentityUnknown, "identity_unknown"},
    {format::kCommGrown, "grown"},
    {format::kCommInter, "inter"},
    {format::kCommWindow, "window"},
    {format::kCommFile, "file"},
    {format::kCommForeign, "foreign"},
    {format::kCommBothGroups, "both_groups"},
    {format::kCommUnseenMessages, "unseen_messages"},
    {format::kCommLostReceives, "lost_receives"},
};

}  // namespace ncclwatch::diagnosis
