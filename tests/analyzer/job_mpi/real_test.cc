// The installations of this machine, where there are any: Debian's.
#include <gtest/gtest.h>

#include <filesystem>

#include "analyzer/run/pick_library.h"

namespace ncclwatch::analyzer {
namespace {

Mpi Of(const std::vector<std::string>& command) { return ChooseMpi(command, Surroundings::OfThisProcess()).mpi; }

void Expect(const char* launcher, Mpi mpi) {
  if (Surroundings::OfThisProcess().FindProgram(launcher).empty()) GTEST_SKIP() << launcher << " is not installed";
  EXPECT_EQ(Of({launcher, "-n", "2", "true"}), mpi);
  EXPECT_EQ(Of({"timeout", "60", launcher, "true"}), mpi);
  EXPECT_EQ(Of({"sh", "-c", std::string("exec ") + launcher + " -n 2 true"}), mpi);
}

TEST(Real, OpenMpi) { Expect("mpirun.openmpi", Mpi::kOpenMpi); }
TEST(Real, Mpich) { Expect("mpirun.mpich", Mpi::kMpich); }
TEST(Real, Hydra) { Expect("mpiexec.hydra", Mpi::kMpich); }
TEST(Real, Orterun) { Expect("orterun", Mpi::kOpenMpi); }

// The alternative that is set: what its links lead to.
TEST(Real, Mpirun) {
  const std::string file = Resolved(Surroundings::OfThisProcess().FindProgram("mpirun"));
  if (FileName(file) != "orterun" && FileName(file) != "mpiexec.hydra") GTEST_SKIP() << "no mpirun of Debian's";
  Expect("mpirun", FileName(file) == "orterun" ? Mpi::kOpenMpi : Mpi::kMpich);
}

TEST(Real, Mpi4py) {
  const std::string package = "/usr/lib/python3/dist-packages/mpi4py";
  if (!std::filesystem::exists(package) || !IsFile("/usr/bin/python3")) GTEST_SKIP() << package << " is not installed";
  EXPECT_NE(Of({"/usr/bin/python3", "x.py"}), Mpi::kNone);
}

TEST(Real, ProgramsWithoutMpi) { EXPECT_EQ(Of({"true"}), Mpi::kNone); }

}  // namespace
}  // namespace ncclwatch::analyzer
