// The data that a replay sends, and whether what arrives is what must arrive. Pure.
//
// Where data only move, byte i of rank r is a fixed function of both. Where they are reduced, element i of rank r is
// (r + i) % 5, of a product 1 or 2: small whole numbers, so that sums are exact in every type that can count so far.
#pragma once

#include <cstddef>
#include <cstdint>

#include "analyzer/player/base/play.h"
#include "ncclwatch/functions/function.h"

namespace ncclwatch::player {

void FillBytes(void* buffer, std::size_t bytes, int rank, std::uint64_t first = 0);
bool BytesAre(const void* buffer, std::size_t bytes, int rank, std::uint64_t first = 0);

// Numbers of the type can be made and checked: functions' number of a datatype.
std::size_t NumberBytes(std::uint8_t dtype);  // 0: of no known kind
void FillNumbers(void* buffer, std::size_t count, std::uint8_t dtype, std::uint8_t reduction, int rank,
                 std::uint64_t first = 0);
// Over ranks 0 to ranks - 1.
Listener::Data CheckReduced(const void* buffer, std::size_t count, std::uint8_t dtype, std::uint8_t reduction,
                            int ranks, std::uint64_t first = 0);

inline Listener::Data Reported(bool right) { return right ? Listener::Data::kRight : Listener::Data::kWrong; }

}  // namespace ncclwatch::player
