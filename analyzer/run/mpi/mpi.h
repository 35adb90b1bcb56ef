// Which MPI a job uses, as far as its files tell. What matters is the ABI: one library of ours for each.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ncclwatch::analyzer {

enum class Mpi {
  kNone,
  kOpenMpi,
  kMpich,       // and what shares its ABI: Intel MPI, MVAPICH, Cray MPICH
  kStandardAbi  // MPI 5's own, libmpi_abi.so: none of ours wraps it
};

struct Evidence {
  Mpi mpi = Mpi::kNone;
  std::string why;  // "./app needs libmpi.so.40"
};

const char* NameOf(Mpi mpi);
std::optional<Mpi> MpiNamed(std::string_view name);  // openmpi, mpich, none

// By the name alone of a library that a program needs; none if it is no MPI.
std::optional<Mpi> MpiOfLibrary(std::string_view name);
// Open MPI's own parts, which only its launcher and its libraries need.
bool IsPartOfOpenMpi(std::string_view library);

}  // namespace ncclwatch::analyzer
