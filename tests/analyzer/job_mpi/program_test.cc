#include "analyzer/run/mpi/program.h"

#include <elf.h>
#include <gtest/gtest.h>

#include "made_up.h"

namespace ncclwatch::analyzer {
namespace {

Mpi Of(const std::string& path, const Surroundings& here) {
  const auto found = MpiOfFile(path, here);
  return found ? found->mpi : Mpi::kNone;
}

TEST(MpiOfLibrary, IsReportedByItsName) {
  EXPECT_EQ(MpiOfLibrary("libmpi.so.40"), Mpi::kOpenMpi);
  EXPECT_EQ(MpiOfLibrary("libmpi.so.12"), Mpi::kMpich);
  EXPECT_EQ(MpiOfLibrary("libmpich.so.12"), Mpi::kMpich);
  EXPECT_EQ(MpiOfLibrary("/opt/x/libmpi.so.12.1"), Mpi::kMpich);
  EXPECT_EQ(MpiOfLibrary("libmpi_cray.so.12"), Mpi::kMpich);
  EXPECT_EQ(MpiOfLibrary("libmpi_ibm.so.3"), Mpi::kOpenMpi);
  EXPECT_EQ(MpiOfLibrary("libmpi_abi.so.0"), Mpi::kStandardAbi);
  for (const char* none : {"", "libm.so.6", "libmpi_cxx.so.40", "libmpifort.so.12", "libmpi", "libmpfr.so.6"})
    EXPECT_EQ(MpiOfLibrary(none), std::nullopt) << none;
}

TEST(Program, IsFollowedThroughWhatItNeeds) {
  MadeUp files;
  files.OpenMpi("lib");
  files.Elf("lib/libsolver.so", {.needed = {"libc.so.6", "libmpi.so.40"}});
  files.Elf("app", {.needed = {"libm.so.6", "libsolver.so"}});
  const auto found = MpiOfFile(files.root() + "/app", files.here());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->mpi, Mpi::kOpenMpi);
  EXPECT_EQ(found->why, files.root() + "/app needs libmpi.so.40 (through libsolver.so)");
}

TEST(Program, WithoutMpiIsNone) {
  MadeUp files;
  files.Elf("lib/liba.so", {.needed = {"libb.so"}});
  files.Elf("lib/libb.so", {.needed = {"liba.so"}});  // a cycle
  EXPECT_EQ(MpiOfFile(files.Elf("app", {.needed = {"liba.so", "libgone.so"}}), files.here()), std::nullopt);
  EXPECT_EQ(MpiOfFile(files.Text("data", "text"), files.here()), std::nullopt);
  EXPECT_EQ(MpiOfFile(files.root() + "/missing", files.here()), std::nullopt);
  EXPECT_EQ(MpiOfFile(files.root(), files.here()), std::nullopt);
}

TEST(Program, NeedsALibraryThatCannotBeFound) {
  MadeUp files;
  EXPECT_EQ(Of(files.Elf("app", {.needed = {"libmpi.so.12"}}), files.here()), Mpi::kMpich);
  EXPECT_EQ(Of(files.Elf("app", {.needed = {"libmpi.so.40"}}), files.here()), Mpi::kOpenMpi);
}

TEST(Program, OpenMpi110HasMpichsNumber) {
  MadeUp files;
  files.Elf("lib/libmpi.so.12", {.needed = {"libopen-rte.so.12", "libopen-pal.so.13"}});
  EXPECT_EQ(Of(files.Elf("app", {.needed = {"libmpi.so.12"}}), files.here()), Mpi::kOpenMpi);
}

// The same name in two folders, only one of which leads to an MPI: where the loader would look first decides.
class Places : public ::testing::Test {
 protected:
  void SetUp() override {
    files_.Elf("one/libx.so", {.needed = {"libmpi.so.40"}});
    files_.Elf("two/libx.so", {.needed = {"libmpich.so.12"}});
    files_.Elf("lib/libx.so", {.needed = {}});
    here_ = files_.here();
  }
  Mpi With(TinyElf elf) {
    elf.needed = {"libx.so"};
    return Of(files_.Elf("bin/app", elf), here_);
  }
  MadeUp files_;
  Surroundings here_;
};

TEST_F(Places, SystemFoldersComeLast) { EXPECT_EQ(With({}), Mpi::kNone); }

TEST_F(Places, RpathBeforeTheVariableBeforeRunpath) {
  here_.libraries = {files_.root() + "/one"};
  EXPECT_EQ(With({}), Mpi::kOpenMpi);
  EXPECT_EQ(With({.runpath = files_.root() + "/two"}), Mpi::kOpenMpi);
  EXPECT_EQ(With({.rpath = files_.root() + "/two"}), Mpi::kMpich);
  EXPECT_EQ(With({.rpath = files_.root() + "/two", .runpath = "/none"}), Mpi::kOpenMpi);
}

TEST_F(Places, OriginIsTheFoldersOwn) {
  EXPECT_EQ(With({.runpath = "/none:$ORIGIN/../two"}), Mpi::kMpich);
  EXPECT_EQ(With({.rpath = "${ORIGIN}/../one"}), Mpi::kOpenMpi);
  const std::string link = files_.Link("elsewhere/deep/app", files_.root() + "/bin/app");
  EXPECT_EQ(Of(link, here_), Mpi::kOpenMpi);
}

TEST_F(Places, RpathIsInheritedRunpathIsNot) {
  files_.Elf("three/libouter.so", {.needed = {"libx.so"}});
  const auto outer = [&](const TinyElf& elf) { return Of(files_.Elf("bin/app", elf), here_); };
  const std::string folders = files_.root() + "/three:" + files_.root() + "/two";
  EXPECT_EQ(outer({.needed = {"libouter.so"}, .rpath = folders}), Mpi::kMpich);
  EXPECT_EQ(outer({.needed = {"libouter.so"}, .runpath = folders}), Mpi::kNone);
}

TEST_F(Places, AnotherMachinesLibraryIsPassedOver) {
  files_.Elf("one/libx.so", {.needed = {"libmpi.so.40"}, .machine = EM_S390});
  EXPECT_EQ(With({.runpath = files_.root() + "/one:" + files_.root() + "/two"}), Mpi::kMpich);
}

TEST_F(Places, TheCacheIsAsked) {
  const std::string path = files_.root() + "/two/libx.so";
  const std::string names = std::string("libx.so") + '\0' + path + '\0';
  const auto word = [](std::uint32_t value) { return std::string(reinterpret_cast<const char*>(&value), 4); };
  const std::uint32_t at = 48 + 24;
  const std::string header =
      "glibc-ld.so.cache1.1" + word(1) + word(static_cast<std::uint32_t>(names.size())) + std::string(20, '\0');
  const std::string entry = word(0x303) + word(at) + word(at + 8) + std::string(12, '\0');
  files_.Text("ld.so.cache", header + entry + names);
  EXPECT_EQ(With({}), Mpi::kMpich);
  for (std::size_t cut = 0; cut < (header + entry + names).size(); ++cut) {
    files_.Text("ld.so.cache", (header + entry + names).substr(0, cut));
    EXPECT_EQ(With({}), Mpi::kNone) << cut;
  }
  files_.Text("ld.so.cache", header.substr(0, 20) + std::string(28, '\xff') + std::string(480, '\xff'));
  EXPECT_EQ(With({}), Mpi::kNone);
}

TEST(Program, WithMpiInside) {
  MadeUp files;
  EXPECT_TRUE(HasMpiInside(files.Elf("static", {.defines = "MPI_Init"})));
  EXPECT_TRUE(HasMpiInside(files.Elf("threads", {.defines = "MPI_Init_thread"})));
  EXPECT_FALSE(HasMpiInside(files.Elf("other", {.defines = "MPI_Initialized"})));
  EXPECT_FALSE(HasMpiInside(files.Text("text", "MPI_Init")));
  const TinyElf mpich{.text = "MPIR_CVAR_ALLREDUCE_ALGORITHM"};
  EXPECT_FALSE(HasMpiInside(files.Elf("named", mpich)));  // a tool that speaks of it
  std::string stripped = Bytes(mpich);
  stripped.replace(40, 8, 8, '\0');  // e_shoff
  EXPECT_TRUE(HasMpiInside(files.Text("stripped", stripped)));
}

}  // namespace
}  // namespace ncclwatch::analyzer
