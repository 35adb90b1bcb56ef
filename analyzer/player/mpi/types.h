// Recorded datatypes and reductions as MPI's.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "analyzer/player/base/play.h"

namespace ncclwatch::player {

struct Elements {
  MPI_Datatype type = MPI_BYTE;
  int count = 0;
  std::size_t bytes = 1;  // of one, in memory
};

// Of a derived type: the basic type that it is made of, by the signature; where it has several, as many bytes. A pair
// with a gap, as MPI_DOUBLE_INT, is played as bytes too, unless it is reduced.
Elements ElementsOf(const Call& call);
// Of all amounts in a v-variant; MPI_BYTE where they differ; where there are none, as the call says.
MPI_Datatype TypeOf(const std::vector<format::Part>& parts, const Call& call);

// MPI_OP_NULL: none that is predefined, or none for the type.
MPI_Op OperatorOf(std::uint8_t reduction);

}  // namespace ncclwatch::player
