// The words that a launcher gets, so that its ranks have LD_PRELOAD and it has not.
#include "analyzer/run/ranks_only.h"

#include <gtest/gtest.h>

#include <sstream>

#include "made_up.h"

namespace ncclwatch::analyzer {
namespace {

class RanksOnly : public ::testing::Test {
 protected:
  void SetUp() override {
    files_.Elf("openmpi/mpirun", {.needed = {"libopen-rte.so.40"}});
    files_.Elf("mpich/mpiexec", {.text = "HYDRA_HOST_FILE"});
    files_.Elf("mpich/mpirun_rsh", {.text = "HYDRA_HOST_FILE"});
    files_.Text("site/mpirun-wrapper", "#!/bin/sh\n");
    files_.Elf("bin/app");
    files_.Elf("bin/-x");
  }
  // Blanks between words; O, M, S stand for the launchers. "none" where the environment has to do.
  std::string Of(const std::string& text, const std::string& inherited = "") {
    std::vector<std::string> command;
    std::istringstream words(text);
    for (std::string word; words >> word;)
      command.push_back(word == "O"   ? files_.root() + "/openmpi/mpirun"
                        : word == "M" ? files_.root() + "/mpich/mpiexec"
                        : word == "S" ? "/usr/bin/srun"
                                      : word);
    request_.inherited = inherited;
    const std::string launcher = command.front();
    const auto rewritten = PreloadRanksOnly(command, request_, files_.here());
    if (!rewritten) return "none";
    EXPECT_EQ(rewritten->front(), launcher);
    std::string line;
    for (std::size_t i = 1; i < rewritten->size(); ++i) line += (i > 1 ? " " : "") + (*rewritten)[i];
    return line;
  }
  MadeUp files_;
  PreloadRequest request_{
      .library = "/l/libncclwatch.so", .inherited = "", .slurm_export = "", .ours = {"NCCLWATCH_DIR"}};
};

TEST_F(RanksOnly, OpenMpi) {
  EXPECT_EQ(Of("O -np 4 app -x LD_PRELOAD=/mine"), "-x LD_PRELOAD=/l/libncclwatch.so -np 4 app -x LD_PRELOAD=/mine");
  EXPECT_EQ(Of("O app", "/a.so:/b.so"), "-x LD_PRELOAD=/l/libncclwatch.so:/a.so:/b.so app");
  EXPECT_EQ(Of("O -x LD_PRELOAD=/mine.so -x PATH app"), "-x LD_PRELOAD=/l/libncclwatch.so:/mine.so -x PATH app");
  EXPECT_EQ(Of("O -x LD_PRELOAD app", "/a.so"), "-x LD_PRELOAD=/l/libncclwatch.so:/a.so app");
  EXPECT_EQ(Of("O -np 1 app 1 : -np 2 app 2"),
            "-x LD_PRELOAD=/l/libncclwatch.so -np 1 app 1 : -x LD_PRELOAD=/l/libncclwatch.so -np 2 app 2");
  EXPECT_EQ(Of("O --mca mca_base_env_list A=b app"), "none");
  request_.open_mpi_environment_list = true;
  EXPECT_EQ(Of("O app"), "none");
}

TEST_F(RanksOnly, Hydra) {
  EXPECT_EQ(Of("M -n 4 app -genv LD_PRELOAD x"), "-genv LD_PRELOAD /l/libncclwatch.so -n 4 app -genv LD_PRELOAD x");
  EXPECT_EQ(Of("M -n 1 app : -n 2 app", "/a.so"), "-genv LD_PRELOAD /l/libncclwatch.so:/a.so -n 1 app : -n 2 app");
  EXPECT_EQ(Of("M -genv LD_PRELOAD /mine.so app"), "-genv LD_PRELOAD /l/libncclwatch.so:/mine.so app");
  EXPECT_EQ(Of("M -env LD_PRELOAD=/mine.so app : app"),
            "-genv LD_PRELOAD /l/libncclwatch.so -env LD_PRELOAD=/l/libncclwatch.so:/mine.so app : app");
  EXPECT_EQ(Of(files_.root() + "/mpich/mpirun_rsh -np 2 h h app"), "none");
}

TEST_F(RanksOnly, Slurm) {
  EXPECT_EQ(Of("S -n 4 app --export=x"), "--export=ALL,LD_PRELOAD=/l/libncclwatch.so -n 4 app --export=x");
  EXPECT_EQ(Of("S app", "/a.so"), "--export=ALL,LD_PRELOAD=/l/libncclwatch.so:/a.so app");
  EXPECT_EQ(Of("S --export=ALL,A=b app"), "--export=ALL,A=b,LD_PRELOAD=/l/libncclwatch.so app");
  EXPECT_EQ(Of("S --export A,LD_PRELOAD=/m.so app"),
            "--export=A,NCCLWATCH_DIR,LD_PRELOAD=/l/libncclwatch.so:/m.so app");
  EXPECT_EQ(Of("S --export=NONE app"), "--export=NCCLWATCH_DIR,LD_PRELOAD=/l/libncclwatch.so app");
  EXPECT_EQ(Of("S app : app"),
            "--export=ALL,LD_PRELOAD=/l/libncclwatch.so app : --export=ALL,LD_PRELOAD=/l/libncclwatch.so app");
  EXPECT_EQ(Of("S app", "/with,comma.so"), "none");
  request_.slurm_export = "A,B";
  EXPECT_EQ(Of("S app"), "--export=A,B,NCCLWATCH_DIR,LD_PRELOAD=/l/libncclwatch.so app");
}

TEST_F(RanksOnly, OthersGetTheEnvironment) {
  for (const char* command :
       {"app", "torchrun --nproc-per-node 2 train.py", "sh -c O", "env A=b O app", "no/such/mpirun app"})
    EXPECT_EQ(Of(command), "none") << command;
  EXPECT_EQ(Of(files_.root() + "/site/mpirun-wrapper app"), "none");
  EXPECT_FALSE(PreloadRanksOnly({}, request_, files_.here()));
}

}  // namespace
}  // namespace ncclwatch::analyzer
