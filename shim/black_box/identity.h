// The identity of a communicator: equal on every rank without a message, different for different communicators.
#pragma once

#include <cstdint>
#include <cstring>

#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::shim::identity {

inline constexpr int kUniqueIdBytes = 128;

// Tell the ways to make a communicator apart.
enum Kind : std::uint64_t { kRoot = 1, kSplit = 2, kShrink = 3, kGrow = 4, kAll = 5 };

constexpr std::uint64_t NotZero(std::uint64_t id) { return id ? id : 1; }

// All 128 bytes count: every rank passes the same ones, also those that some versions leave unwritten.
inline std::uint64_t OfUniqueId(const char* id) {
  std::uint64_t hash = kRoot;
  for (int at = 0; at < kUniqueIdBytes; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, id + at, sizeof word);
    hash = format::Mix(hash, word);
  }
  return NotZero(hash);
}

// uses: how often the same id was used before by the same rank.
constexpr std::uint64_t OfRoot(std::uint64_t unique_id, std::uint64_t uses) {
  return NotZero(uses ? format::Mix(unique_id, uses) : unique_id);
}

// ordinal: of the creating call on the parent. Not the position of collectives: one call too many on one rank, the
// very fault looked for, would give its later communicators other names.
constexpr std::uint64_t OfChild(Kind kind, std::uint64_t parent, std::uint64_t ordinal, std::uint64_t what) {
  return NotZero(format::Mix(format::Mix(format::Mix(kind, parent), ordinal), what));
}

// Independent of the order in which the excluded ranks are listed.
inline std::uint64_t OfExcluded(const int* ranks, int count) {
  std::uint64_t sum = 0;
  for (int i = 0; ranks && i < count; ++i) sum += format::Mix(1, static_cast<std::uint64_t>(ranks[i]));
  return sum;
}

}  // namespace ncclwatch::shim::identity
