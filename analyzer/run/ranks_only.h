// LD_PRELOAD for the ranks of a job, and not for their launcher: what it starts beside them (Slurm's TaskProlog,
// daemons, shells of other images) must not fail over a library that it cannot load.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/run/mpi/surroundings.h"

namespace ncclwatch::analyzer {

struct PreloadRequest {
  std::string library;
  std::string inherited;                   // LD_PRELOAD as it was; stays behind the library
  std::string slurm_export;                // SLURM_EXPORT_ENV, which an --export of ours would hide
  std::vector<std::string> ours;           // names of variables that ranks need, where only named ones reach them
  bool open_mpi_environment_list = false;  // OMPI_MCA_mca_base_env_list is set: Open MPI takes it or -x, not both
};

// The command with LD_PRELOAD set by the launcher's own option: mpirun of Open MPI (-x) and of MPICH (-genv), srun
// (--export). What the user sets there stays, behind the library. Words from the program on are not touched. None where
// the command does not begin with such a launcher, torchrun for one: then the environment has to do.
std::optional<std::vector<std::string>> PreloadRanksOnly(const std::vector<std::string>& command,
                                                         const PreloadRequest& request, const Surroundings& here);

}  // namespace ncclwatch::analyzer
