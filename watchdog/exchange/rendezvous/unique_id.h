// A place in the ncclUniqueId by which every rank of a communicator learns where the leaders meet and a part of their
// token, with no configuration. NCCL uses the first 48 bytes at most (its own magic, an address, since 2.29 some ints)
// and hands round all 128; these are the last 32:
//
//   96 'N' 'W'  98 version 1  99 family 4 or 6  100 port  102 address, 16 bytes  118 secret, 6 bytes
//   124 CRC-32 of the bytes before it, the id's own included: a tail that was left over in uninitialised memory and
//       came under another id does not fit
//
// All numbers little-endian, the address in network order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "watchdog/exchange/protocol/exchange.h"

namespace ncclwatch::exchange {

inline constexpr std::size_t kUniqueIdBytes = 128;
using UniqueId = std::span<const std::uint8_t, kUniqueIdBytes>;

struct Tail {
  int family = 4;  // or 6
  std::array<std::uint8_t, 16> address{};
  std::uint16_t port = 0;
  std::array<std::uint8_t, 6> secret{};
};

// Is there room in ids that this version of NCCL makes (as ncclGetVersion says it, 22809)? 2.16 to 2.22 leave garbage
// where the tail would be, so that nobody could tell. Nor under NCCL_COMM_ID, which makes all ids equal.
bool HasTail(int nccl_version, const char* nccl_comm_id);

// False, and nothing done: the place is taken.
bool PutTail(const Tail& tail, std::span<std::uint8_t, kUniqueIdBytes> id);
std::optional<Tail> TailOf(UniqueId id);
Address AddressOf(const Tail& tail);

// The address that NCCL itself put into the id, if there is one: what it chose to be reached at.
std::optional<Tail> PlaceOfNccl(UniqueId id);

// For whoever makes an id: the address that NCCL chose, a port that follows from the id, and a secret. False: there is
// no address that other nodes could reach, no randomness, or no room.
bool OfferPlace(std::span<std::uint8_t, kUniqueIdBytes> id);

std::uint32_t Crc32(std::span<const std::uint8_t> bytes);  // of Ethernet and zip

}  // namespace ncclwatch::exchange
