// The unique ids of which this process has made communicators, the first few: every rank of a communicator has passed
// the same 128 bytes, which may tell where the leaders meet and are a secret of theirs (unique_id.h, token.h). Written
// by the application's threads as they make communicators, read by the watchdog. No lock, no allocation in Note.
#pragma once

#include <array>
#include <vector>

#include "watchdog/exchange/rendezvous/unique_id.h"

namespace ncclwatch::exchange {

inline constexpr std::size_t kNotedIds = 4;

void NoteUniqueId(UniqueId id);
std::vector<std::array<std::uint8_t, kUniqueIdBytes>> NotedUniqueIds();  // in the order of their coming

// The place that the first of them with a tail names, its port in the range of `bind`; kind kNone: none does.
Address AddressFromNotedIds(const settings::BindAddress& bind = {});
// The tokens of all of them. Nothing of ids that NCCL_COMM_ID made: these are no secret.
std::vector<Token> TokensOfNotedIds(const char* nccl_comm_id);

}  // namespace ncclwatch::exchange
