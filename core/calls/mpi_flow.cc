#include "core/calls/mpi_flow.h"

namespace ncclwatch::diagnosis {

using functions::Function;

Flow FlowOf(Function function) {
  switch (functions::WithSmallCounts(function)) {
    case Function::MPI_Bcast:
    case Function::MPI_Ibcast:
    case Function::MPI_Scatter:
    case Function::MPI_Iscatter:
    case Function::MPI_Scatterv:
    case Function::MPI_Iscatterv: return Flow::kFromRoot;
    case Function::MPI_Reduce:
    case Function::MPI_Ireduce:
    case Function::MPI_Gather:
    case Function::MPI_Igather:
    case Function::MPI_Gatherv:
    case Function::MPI_Igatherv: return Flow::kToRoot;
    default: return Flow::kAll;
  }
}

}  // namespace ncclwatch::diagnosis
