// Whatever the bytes of a program say, looking at it ends.
#include <gtest/gtest.h>

#include "analyzer/run/mpi/program.h"
#include "analyzer/run/mpi/python.h"
#include "made_up.h"

namespace ncclwatch::analyzer {
namespace {

TEST(Damaged, EveryByteAndEveryLength) {
  MadeUp files;
  const std::string whole = Bytes({.needed = {"libx.so", "liby.so"}, .rpath = "$ORIGIN", .defines = "MPI_Init"});
  const auto look = [&](const std::string& bytes) {
    const std::string path = files.Text("app", bytes);
    MpiOfFile(path, files.here());
    HasMpiInside(path);
    MpiOfPython(path, files.here());
  };
  for (std::size_t length = 0; length < whole.size(); ++length) look(whole.substr(0, length));
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const char value : {'\1', '\xff'}) {
      std::string changed = whole;
      changed[at] = value;
      look(changed);
    }
}

TEST(Damaged, OddScripts) {
  MadeUp files;
  for (const std::string& text :
       {std::string("#!"), std::string("#!\n"), std::string("#! \t\n"), "#!" + std::string(5000, 'a'),
        std::string("#!\0python3\n", 11), std::string("#!/usr/bin/env"), std::string("#!python3")})
    EXPECT_EQ(MpiOfPython(files.Text("script", text), files.here()), std::nullopt);
}

}  // namespace
}  // namespace ncclwatch::analyzer
