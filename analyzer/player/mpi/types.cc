#include "analyzer/player/mpi/types.h"

#include "ncclwatch/format/signature.h"

namespace ncclwatch::player {
namespace {

#define DATATYPE(number, name) {number, name},
#define OPERATOR(number, name)
struct NamedType {
  std::uint8_t number;
  MPI_Datatype type;
};
const NamedType kTypes[] = {
#include "ncclwatch/functions/mpi_types.def"
};

#define DATATYPE(number, name)
#define OPERATOR(number, name) {number, name},
struct NamedOperator {
  std::uint8_t number;
  MPI_Op op;
};
const NamedOperator kOperators[] = {
#include "ncclwatch/functions/mpi_types.def"
};

MPI_Datatype Named(std::uint8_t dtype) {
  for (const NamedType& one : kTypes)
    if (one.number == dtype) return one.type;
  return MPI_DATATYPE_NULL;
}

struct Layout {
  std::size_t size = 0;  // 0: it does not exist here
  std::size_t extent = 0;
};
Layout LayoutOf(MPI_Datatype type) {
  int size = 0;
  MPI_Aint lowest = 0, extent = 0;
  if (type == MPI_DATATYPE_NULL) return {};
  MPI_Type_size(type, &size);
  MPI_Type_get_extent(type, &lowest, &extent);
  return {static_cast<std::size_t>(size), static_cast<std::size_t>(extent)};
}

// 0: it does not exist here, or has gaps.
std::size_t SizeOf(MPI_Datatype type) {
  const Layout layout = LayoutOf(type);
  return layout.size == layout.extent ? layout.size : 0;
}

// Of `bytes` in all. MPI_BYTE: it is made of none alone.
MPI_Datatype MadeOf(std::uint32_t signature, std::uint64_t bytes) {
  const auto is = [&](const NamedType& one) {
    const std::size_t size = SizeOf(one.type);
    return size != 0 && bytes % size == 0 && format::SignatureOfBasic(one.number, bytes / size) == signature;
  };
  for (const NamedType& one : kTypes)
    if (is(one)) return one.type;
  return MPI_BYTE;
}

}  // namespace

MPI_Op OperatorOf(std::uint8_t reduction) {
  for (const NamedOperator& one : kOperators)
    if (one.number == reduction) return one.op;
  return MPI_OP_NULL;
}

Elements ElementsOf(const Call& call) {
  const std::uint64_t bytes = call.as.bytes;
  MPI_Datatype type = Named(call.as.dtype);
  if (type == MPI_DATATYPE_NULL && call.as.signature != 0) type = MadeOf(call.as.signature, bytes);
  const Layout layout = LayoutOf(type);
  const bool gaps = layout.size != layout.extent && call.as.reduction == format::kNoReduction;
  if (layout.size == 0 || gaps || bytes % layout.size != 0) return {MPI_BYTE, static_cast<int>(bytes), 1};
  return {type, static_cast<int>(bytes / layout.size), layout.extent};
}

MPI_Datatype TypeOf(const std::vector<format::Part>& parts, const Call& call) {
  std::uint16_t dtype = format::kNoType;
  for (const format::Part& part : parts) {
    if (part.bytes == 0) continue;
    if (part.element == 0 || (dtype != format::kNoType && dtype != part.dtype)) return MPI_BYTE;
    dtype = part.dtype;
  }
  const MPI_Datatype type = Named(dtype == format::kNoType ? call.as.dtype : static_cast<std::uint8_t>(dtype));
  return SizeOf(type) == 0 ? MPI_BYTE : type;
}

}  // namespace ncclwatch::player
