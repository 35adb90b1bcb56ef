#include "core/calls/mpi_clash.h"

#include "core/calls/mpi_types.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

std::uint64_t ElementBytes(const Call& call) { return call.count == 0 ? 0 : call.bytes / call.count; }

}  // namespace

Clash ClashOf(const Call& send, const Call& receive) {
  if (send.signature == 0 || receive.signature == 0) return Clash::kNone;
  if (send.bytes > receive.bytes) return Clash::kTooLong;
  if (send.bytes == 0 || send.dtype == kPackedType || receive.dtype == kPackedType) return Clash::kNone;
  if (send.dtype != receive.dtype && IsBasicType(send.dtype) && IsBasicType(receive.dtype)) {
    const bool alike = AreAliases(send.dtype, ElementBytes(send), receive.dtype, ElementBytes(receive));
    return send.dtype == kByteType || receive.dtype == kByteType || alike ? Clash::kBytes : Clash::kTypes;
  }
  // Of types that are made of several basic ones only whole messages can be compared.
  return send.bytes == receive.bytes && send.signature != receive.signature ? Clash::kTypes : Clash::kNone;
}

}  // namespace ncclwatch::diagnosis
