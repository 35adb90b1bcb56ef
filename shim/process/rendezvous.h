// The ncclUniqueId as the way by which a job's leaders learn where they meet, where the launcher does not tell
// (watchdog/exchange/rendezvous/unique_id.h).
#pragma once

#include <cstdint>

namespace ncclwatch::shim {

// After ncclGetUniqueId of `library`: puts a place into the unused end of the 128 bytes, where this job needs one and
// this NCCL leaves room.
void OfferMeetingPlace(std::uint32_t library, char* id) noexcept;
// Before a communicator is made of it.
void NoteMeetingPlace(const char* id) noexcept;

}  // namespace ncclwatch::shim
