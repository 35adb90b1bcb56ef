#include "watchdog/diagnosis/mpi_clash.h"

#include "ncclwatch/functions/types.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

// 67 and 80 of mpi_types.def: MPI_BYTE and MPI_PACKED.
constexpr std::uint8_t kByte = 67, kPacked = 80;

bool IsBasic(std::uint8_t dtype) { return dtype != functions::kDerivedType && dtype != format::kNoType; }

// Numbers of mpi_types.def.
bool IsFloating(std::uint8_t dtype) {
  return (dtype >= 75 && dtype <= 77) || (dtype >= 90 && dtype <= 92) || (dtype >= 97 && dtype <= 99) ||
         (dtype >= 113 && dtype <= 116) || (dtype >= 121 && dtype <= 126);
}

// Names of what is one type on this machine, MPI_INT and MPI_INT32_T: the standard tells them apart, and nothing comes
// of it.
bool AreAliases(const Call& send, const Call& receive) {
  if (send.count == 0 || receive.count == 0 || IsFloating(send.dtype) != IsFloating(receive.dtype)) return false;
  return send.bytes / send.count == receive.bytes / receive.count;
}

}  // namespace

Clash ClashOf(const Call& send, const Call& receive) {
  if (send.signature == 0 || receive.signature == 0) return Clash::kNone;
  if (send.bytes > receive.bytes) return Clash::kTooLong;
  if (send.bytes == 0 || send.dtype == kPacked || receive.dtype == kPacked) return Clash::kNone;
  if (send.dtype != receive.dtype && IsBasic(send.dtype) && IsBasic(receive.dtype))
    return send.dtype == kByte || receive.dtype == kByte || AreAliases(send, receive) ? Clash::kBytes : Clash::kTypes;
  // Of types that are made of several basic ones only whole messages can be compared.
  return send.bytes == receive.bytes && send.signature != receive.signature ? Clash::kTypes : Clash::kNone;
}

}  // namespace ncclwatch::diagnosis
