// Which of our libraries a job gets: the one for the MPI that it uses, or the one without MPI.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/run/mpi/mpi.h"
#include "analyzer/run/mpi/surroundings.h"

namespace ncclwatch::analyzer {

struct MpiChoice {
  Mpi mpi = Mpi::kNone;
  std::string why;
  std::string warning;  // one line, if something will not be seen; else empty
};

// First the launcher, then the programs among the words, then Python's mpi4py. A program that needs another MPI than
// its launcher's is believed: what it loads is what it calls.
MpiChoice ChooseMpi(const std::vector<std::string>& command, Surroundings here);

struct LibraryChoice {
  std::string path;
  std::string why;
  std::string warning;
};

// `plain` is libncclwatch.so; the others are expected beside it.
LibraryChoice PickLibrary(const std::string& plain, const MpiChoice& mpi);

}  // namespace ncclwatch::analyzer
