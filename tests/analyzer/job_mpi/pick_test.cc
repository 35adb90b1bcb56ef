#include "analyzer/run/pick_library.h"

#include <gtest/gtest.h>

#include "analyzer/run/mpi/command_words.h"
#include "made_up.h"

namespace ncclwatch::analyzer {
namespace {

using Words = std::vector<std::string>;

TEST(CommandWords, ShellsAreLookedInto) {
  EXPECT_EQ(CommandWords({"a", "-c", "b c"}), (Words{"a", "-c", "b c"}));
  EXPECT_EQ(CommandWords({"bash", "-lc", "cd x;A=1 mpirun -n '2 3' \"./a b\"|tee", "z"}),
            (Words{"bash", "-lc", "cd", "x", "A=1", "mpirun", "-n", "2 3", "./a b", "tee", "z"}));
  EXPECT_EQ(CommandWords({"/bin/sh", "-c", "bash -c 'mpirun x'"}),
            (Words{"/bin/sh", "-c", "bash", "-c", "mpirun", "x"}));
  EXPECT_EQ(CommandWords({"sh", "-c"}), (Words{"sh", "-c"}));
  EXPECT_EQ(CommandWords({"sh", "-c", "a \\"}), (Words{"sh", "-c", "a", "\\"}));
}

class Pick : public ::testing::Test {
 protected:
  void SetUp() override {
    files_.Elf("bin/orterun", {.needed = {"libopen-rte.so.40"}});
    files_.Link("bin/mpirun", "orterun");
    files_.Elf("bin/mpiexec.hydra", {.text = "HYDRA_"});
    for (const char* wrapper : {"timeout", "env", "nice", "numactl", "srun", "bash"})
      files_.Elf(std::string("bin/") + wrapper, {.needed = {"libc.so.6"}});
    files_.Elf("plain", {.needed = {"libc.so.6"}});
    files_.Elf("ompi", {.needed = {"libmpi.so.40"}});
    files_.Elf("mpich", {.needed = {"libmpich.so.12"}});
    files_.Elf("inside", {.defines = "MPI_Init"});
  }
  MpiChoice Of(const Words& command) { return ChooseMpi(command, files_.here()); }
  MadeUp files_;
};

TEST_F(Pick, TheLauncherTells) {
  const MpiChoice choice = Of({"mpirun", "-n", "4", "./plain"});
  EXPECT_EQ(choice.mpi, Mpi::kOpenMpi);
  EXPECT_EQ(choice.why, files_.root() + "/bin/orterun needs libopen-rte.so.40");
  EXPECT_EQ(choice.warning, "");
  EXPECT_EQ(Of({"mpiexec.hydra", "./plain"}).mpi, Mpi::kMpich);
  EXPECT_EQ(Of({"mpirun", "./ompi"}).warning, "");
}

TEST_F(Pick, BehindWrappers) {
  for (const Words& command :
       {Words{"timeout", "60", "mpirun", "./plain"}, Words{"env", "A=b", "nice", "-n", "5", "mpirun", "./plain"},
        Words{"numactl", "-N", "0", "mpirun"}, Words{"srun", "-n", "1", "bash", "-c", "mpirun -n 2 ./plain"}})
    EXPECT_EQ(Of(command).mpi, Mpi::kOpenMpi) << command.front();
}

TEST_F(Pick, WithoutAnMpisLauncherTheProgramTells) {
  EXPECT_EQ(Of({"srun", "-n", "4", "./mpich"}).mpi, Mpi::kMpich);
  EXPECT_EQ(Of({"./ompi"}).mpi, Mpi::kOpenMpi);
  EXPECT_EQ(Of({"ompi"}).mpi, Mpi::kOpenMpi);
  EXPECT_EQ(Of({"./ompi", "mpiexec.hydra"}).mpi, Mpi::kOpenMpi);
  EXPECT_EQ(Of({"bash", "-c", "cd /; exec " + files_.root() + "/mpich"}).mpi, Mpi::kMpich);
}

TEST_F(Pick, AProgramIsBelievedMoreThanItsLauncher) {
  const MpiChoice choice = Of({"mpirun", "-n", "2", "./mpich"});
  EXPECT_EQ(choice.mpi, Mpi::kMpich);
  EXPECT_EQ(choice.warning, files_.root() + "/./mpich needs libmpich.so.12, but " + files_.root() +
                                "/bin/orterun needs libopen-rte.so.40: mpich is taken; --mpi says otherwise");
}

TEST_F(Pick, NothingFound) {
  for (const Words& command : {Words{"./plain"}, Words{"missing"}, Words{""}, Words{"srun", "-n", "2", "./plain"}}) {
    EXPECT_EQ(Of(command).mpi, Mpi::kNone);
    EXPECT_EQ(Of(command).warning, "");
  }
}

TEST_F(Pick, PythonComesLast) {
  files_.Elf("bin/python3");
  files_.Elf("lib/python3/dist-packages/mpi4py/MPI.abi3.so", {.needed = {"libmpi.so.40"}});
  EXPECT_EQ(Of({"python3", "x.py"}).mpi, Mpi::kOpenMpi);
  EXPECT_EQ(Of({"python3", "launch.py", "--", "./mpich"}).mpi, Mpi::kMpich);
  EXPECT_EQ(Of({"mpiexec.hydra", "python3", "x.py"}).mpi, Mpi::kMpich);
}

TEST_F(Pick, MpiInsideIsSaid) {
  const MpiChoice choice = Of({"mpirun", "-n", "2", "./inside"});
  EXPECT_EQ(choice.mpi, Mpi::kNone);
  EXPECT_NE(choice.warning.find("/inside is statically linked with MPI"), std::string::npos) << choice.warning;
}

TEST_F(Pick, TheStandardsOwnAbiIsSaid) {
  files_.Elf("abi", {.needed = {"libmpi_abi.so.0"}});
  EXPECT_EQ(Of({"./abi"}).mpi, Mpi::kNone);
  EXPECT_NE(Of({"./abi"}).warning, "");
}

TEST_F(Pick, VariablesOfTheCommandAreItsOwn) {
  files_.Elf("far/libx.so", {.needed = {"libmpi.so.40"}});
  files_.Elf("near", {.needed = {"libx.so"}});
  EXPECT_EQ(Of({"./near"}).mpi, Mpi::kNone);
  EXPECT_EQ(Of({"env", "LD_LIBRARY_PATH=" + files_.root() + "/far", "./near"}).mpi, Mpi::kOpenMpi);
}

TEST_F(Pick, LibrariesLieSideBySide) {
  const std::string plain = files_.Text("ours/libncclwatch.so", "");
  EXPECT_EQ(PickLibrary(plain, {Mpi::kNone, "", ""}).path, plain);
  const LibraryChoice missing = PickLibrary(plain, {Mpi::kMpich, "because", ""});
  EXPECT_EQ(missing.path, plain);
  EXPECT_NE(missing.warning.find("libncclwatch-mpich.so is missing"), std::string::npos);
  const std::string mpich = files_.Text("ours/libncclwatch-mpich.so", "");
  EXPECT_EQ(PickLibrary(plain, {Mpi::kMpich, "because", ""}).path, mpich);
  EXPECT_EQ(PickLibrary(plain, {Mpi::kMpich, "because", ""}).warning, "");
}

}  // namespace
}  // namespace ncclwatch::analyzer
