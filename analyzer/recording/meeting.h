// Which calls of several ranks are one: the sides of a collective, the two ends of a message.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "core/reader/image.h"

namespace ncclwatch::analyzer {

// Communicator, position, and of a message both ranks in the communicator plus 1.
using MeetingKey = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t>;

// None where the call meets nobody, or where it is not known whom.
std::optional<MeetingKey> MeetingOf(const reader::Communicator& on, const reader::Call& call);

}  // namespace ncclwatch::analyzer
