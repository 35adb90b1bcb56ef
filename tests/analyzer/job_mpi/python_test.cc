#include "analyzer/run/mpi/python.h"

#include <gtest/gtest.h>

#include "made_up.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kModule[] = "/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so";

class Python : public ::testing::Test {
 protected:
  void SetUp() override {
    files_.Elf("usr/bin/python3.11");
    python_ = files_.Link("usr/bin/python3", "python3.11");
    here_ = files_.here();
    here_.path.push_back(files_.root() + "/usr/bin");
  }
  void Module(const std::string& folder, const std::string& library) {
    files_.Elf(folder + kModule, {.needed = {library}});
  }
  Mpi Of(const std::string& path) {
    const auto found = MpiOfPython(path, here_);
    return found ? found->mpi : Mpi::kNone;
  }
  MadeUp files_;
  Surroundings here_;
  std::string python_;
};

TEST_F(Python, WithoutMpi4pyIsNone) { EXPECT_EQ(Of(python_), Mpi::kNone); }

TEST_F(Python, DebiansFolder) {
  Module("usr/lib/python3/dist-packages", "libmpi.so.40");
  EXPECT_EQ(Of(python_), Mpi::kOpenMpi);
  EXPECT_EQ(Of(files_.Text("run.py", "#!/usr/bin/env -S python3 -u\n")), Mpi::kOpenMpi);
  EXPECT_EQ(Of(files_.Text("run2.py", "#!" + python_ + "\n")), Mpi::kOpenMpi);
  EXPECT_EQ(Of(files_.Text("run3.py", "import mpi4py\n")), Mpi::kNone);
  EXPECT_EQ(Of(files_.Text("run.sh", "#!/bin/sh\n")), Mpi::kNone);
}

TEST_F(Python, OwnPackagesComeBeforeTheDistributions) {
  Module("usr/lib/python3/dist-packages", "libmpi.so.40");
  Module("home/.local/lib/python3.11/site-packages", "libmpich.so.12");
  EXPECT_EQ(Of(python_), Mpi::kOpenMpi);
  here_.home = files_.root() + "/home";
  EXPECT_EQ(Of(python_), Mpi::kMpich);
  here_.python_path = {files_.root() + "/mine"};
  Module("mine", "libmpi.so.40");
  EXPECT_EQ(Of(python_), Mpi::kOpenMpi);
}

TEST_F(Python, VirtualEnvironmentHasItsOwn) {
  Module("usr/lib/python3/dist-packages", "libmpi.so.40");
  const std::string python = files_.Link("venv/bin/python", python_);
  files_.Text("venv/pyvenv.cfg", "home = " + files_.root() + "/usr/bin\ninclude-system-site-packages = false\n");
  EXPECT_EQ(Of(python), Mpi::kNone);
  files_.Text("venv/pyvenv.cfg", "home = " + files_.root() + "/usr/bin\ninclude-system-site-packages = true\n");
  EXPECT_EQ(Of(python), Mpi::kOpenMpi);
  Module("venv/lib/python3.11/site-packages", "libmpi.so.12");
  EXPECT_EQ(Of(python), Mpi::kMpich);
}

TEST_F(Python, AnotherVersionsModuleIsNotItsOwn) {
  Module("usr/lib/python3.9/site-packages", "libmpich.so.12");
  files_.Elf("usr/lib/python3/dist-packages/mpi4py/MPI.cpython-39-x86_64-linux-gnu.so", {.needed = {"libmpich.so.12"}});
  EXPECT_EQ(Of(python_), Mpi::kNone);
  files_.Elf("usr/lib/python3/dist-packages/mpi4py/MPI.abi3.so", {.needed = {"libmpi.so.40"}});
  EXPECT_EQ(Of(python_), Mpi::kOpenMpi);
}

TEST_F(Python, BuiltForSeveralItTellsNothing) {
  const std::string package = "usr/lib/python3.11/site-packages/mpi4py/";
  files_.Elf(package + "MPI.mpich.cpython-311-x86_64-linux-gnu.so", {.needed = {"libmpi.so.12"}});
  files_.Elf(package + "MPI.openmpi.cpython-311-x86_64-linux-gnu.so", {.needed = {"libmpi.so.40"}});
  EXPECT_EQ(Of(python_), Mpi::kNone);
}

}  // namespace
}  // namespace ncclwatch::analyzer
