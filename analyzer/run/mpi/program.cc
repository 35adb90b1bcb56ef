#include "analyzer/run/mpi/program.h"

#include <algorithm>

#include "analyzer/run/mpi/library_search.h"

namespace ncclwatch::analyzer {
namespace {

// libmpi.so.12 is MPICH's, but Open MPI 1.10's too: its own needs tell.
Mpi Corrected(Mpi by_name, const LoadedObject* library) {
  const bool open_mpi =
      library && std::any_of(library->links.needed.begin(), library->links.needed.end(), IsPartOfOpenMpi);
  return open_mpi ? Mpi::kOpenMpi : by_name;
}

}  // namespace

std::optional<Evidence> MpiOfFile(const std::string& path, const Surroundings& here) {
  const auto program = LibrarySearch::Open(path);
  if (!program) return std::nullopt;
  std::optional<Evidence> found;
  LibrarySearch(here).Walk(*program, [&](const std::string& name, const LoadedObject& by, const LoadedObject* library) {
    const auto mpi = MpiOfLibrary(name);
    if (!mpi) return true;
    std::string why = path + " needs " + name;
    if (by.path != program->path) why += " (through " + FileName(by.path) + ")";
    found = Evidence{Corrected(*mpi, library), why};
    return false;
  });
  return found;
}

bool HasMpiInside(const std::string& path) {
  const auto file = OpenElf(path);
  if (!file) return false;
  if (file->Named("MPI_Init") || file->Named("MPI_Init_thread")) return true;
  // A stripped program has no such names left, but the texts that MPICH and Open MPI carry.
  return file->stripped() && (FileHas(path, "MPIR_CVAR_ALLREDUCE_") || FileHas(path, "ompi_mpi_init: "));
}

}  // namespace ncclwatch::analyzer
