#include "analyzer/run/mpi/launcher.h"

#include <gtest/gtest.h>

#include "made_up.h"

namespace ncclwatch::analyzer {
namespace {

Mpi Of(const std::string& word, const MadeUp& files) {
  const auto found = MpiOfLauncher(word, files.here());
  return found ? found->mpi : Mpi::kNone;
}

TEST(Launcher, IsReportedByWhatItNeedsNotByItsName) {
  MadeUp files;
  files.Elf("bin/mpirun", {.needed = {"libopen-rte.so.40"}});
  files.Elf("bin/mpiexec", {.text = "HYDRA_HOST_FILE"});
  files.Elf("bin/mpirun.mpich", {.needed = {"libopen-pal.so.80"}});
  EXPECT_EQ(Of("mpirun", files), Mpi::kOpenMpi);
  EXPECT_EQ(Of("mpiexec", files), Mpi::kMpich);
  EXPECT_EQ(Of("mpirun.mpich", files), Mpi::kOpenMpi);
  EXPECT_EQ(Of(files.root() + "/bin/mpiexec", files), Mpi::kMpich);
}

TEST(Launcher, ThroughLinks) {
  MadeUp files;
  files.Elf("bin/tool");
  files.Link("bin/mpirun.openmpi", "tool");
  files.Link("etc/alternatives/mpirun", files.root() + "/bin/mpirun.openmpi");
  files.Link("bin/mpirun", "../etc/alternatives/mpirun");
  EXPECT_EQ(Of("mpirun", files), Mpi::kOpenMpi);
  files.Link("bin/mpiexec", "mpiexec");  // a cycle
  EXPECT_EQ(Of("mpiexec", files), Mpi::kNone);
}

TEST(Launcher, ScriptIsReportedByItsFolder) {
  MadeUp files;
  files.Text("intel/mpirun", "#!/bin/sh\n");
  files.Elf("intel/hydra_bstrap_proxy");
  EXPECT_EQ(Of("intel/mpirun", files), Mpi::kMpich);
  files.Text("ompi5/bin/mpirun", "#!/bin/sh\n");
  files.Elf("ompi5/bin/ompi_info");
  EXPECT_EQ(Of("ompi5/bin/mpirun", files), Mpi::kOpenMpi);
  files.Text("both/mpirun", "#!/bin/sh\n");
  files.Elf("both/orted");
  files.Elf("both/hydra_pmi_proxy");
  EXPECT_EQ(Of("both/mpirun", files), Mpi::kNone);
  files.Text("mpich/bin/mpirun", "#!/bin/sh\n");
  EXPECT_EQ(Of("mpich/bin/mpirun", files), Mpi::kMpich);
}

TEST(Launcher, OtherProgramsAreNone) {
  MadeUp files;
  files.Elf("bin/app", {.needed = {"libopen-pal.so.40"}});
  files.Elf("bin/srun", {.text = "HYDRA_"});
  for (const char* word : {"app", "srun", "missing", "", "/", "bin"}) EXPECT_EQ(Of(word, files), Mpi::kNone) << word;
}

}  // namespace
}  // namespace ncclwatch::analyzer
