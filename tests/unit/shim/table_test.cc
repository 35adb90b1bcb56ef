// The table of functions against the headers it is built with.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "ncclwatch/functions/function.h"

namespace ncclwatch::functions {
namespace {

std::string Text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::set<std::string> Declared(const std::string& path) {
  // A result at the start of a line, then nccl..., then a parenthesis; pncclX and comments do not match.
  const std::regex declaration(
      "(?:^|\\n)[ \\t]*(?:NCCL_EXTERN_C[ ]+)?(?:__host__[ ]+)?"
      "(?:ncclResult_t|const[ ]+char[ ]*\\*|void|int|ncclTeam_t)[ \\t]+(nccl[A-Z]\\w*)[ ]*\\(");
  const std::string text = Text(path);
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) names.insert((*at)[1]);
  return names;
}

void ExpectAllInTable(const std::set<std::string>& names) {
  for (const std::string& name : names)
    EXPECT_TRUE(std::any_of(std::begin(kFunctions), std::end(kFunctions),
                            [&](const FunctionInfo& info) { return info.name == name; }))
        << name << " is declared and not in its table";
}

TEST(ShimTable, HasEveryFunctionOfTheHeader) {
  const std::set<std::string> names = Declared(std::string(SHIM_NCCL_INCLUDE) + "/nccl.h");
  EXPECT_GT(names.size(), 30u);
  ExpectAllInTable(names);
}

TEST(ShimTable, HasTheHostSideOfTheDeviceHeader) {
  const std::string folder = std::string(SHIM_NCCL_INCLUDE) + "/nccl_device/";
  for (const char* file : {"core.h", "host.h", "comm.h", "ll_a2a.h", "lsa_barrier.h", "gin_barrier.h"})
    ExpectAllInTable(Declared(folder + file));
}

TEST(ShimTable, NumbersAreUniqueAndFitTheirTable) {
  std::set<std::uint32_t> numbers;
  std::set<std::string_view> names;
  for (const FunctionInfo& info : kFunctions) {
    const auto number = static_cast<std::uint32_t>(info.function);
    EXPECT_TRUE(numbers.insert(number).second) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_GT(number, 0u);
    EXPECT_LT(number, info.name.starts_with("MPI_") ? kRowOf.size() : 256u);
    EXPECT_EQ(IsMpi(info.function), info.name.starts_with("MPI_")) << info.name;
  }
}

// Every name of the profiling interface that mpi.h and what it includes declare.
std::set<std::string> DeclaredOfMpi(const std::string& folder) {
  const std::regex declaration("\\bP(MPI_[A-Z]\\w*)[ ]*\\(");
  std::set<std::string> names;
  for (const char* file : {"/mpi.h", "/mpi_proto.h", "/mpio.h"}) {
    const std::string text = Text(folder + file);
    for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) names.insert((*at)[1]);
  }
  return names;
}

TEST(ShimTable, HasEveryFunctionOfTheMpisThatAreInstalled) {
  const std::string folders[] = {SHIM_OPENMPI_INCLUDE, SHIM_MPICH_INCLUDE};
  int installed = 0;
  for (const std::string& folder : folders) {
    if (!std::ifstream(folder + "/mpi.h")) continue;
    ++installed;
    const std::set<std::string> names = DeclaredOfMpi(folder);
    EXPECT_GT(names.size(), 300u) << folder;
    ExpectAllInTable(names);
  }
  if (installed == 0) GTEST_SKIP() << "neither Open MPI nor MPICH is installed";
}

TEST(ShimTable, LargeCountsHaveTheNumbersOfTheirSmallOnes) {
  int large = 0;
  for (const FunctionInfo& info : kFunctions) {
    const FunctionInfo* small = Find(WithSmallCounts(info.function));
    ASSERT_NE(small, nullptr) << info.name;
    if (small->function == info.function) continue;
    ++large;
    EXPECT_EQ(std::string(small->name) + "_c", info.name);
    EXPECT_EQ(small->family, info.family) << info.name;
  }
  EXPECT_GT(large, 100);
}

}  // namespace
}  // namespace ncclwatch::functions
