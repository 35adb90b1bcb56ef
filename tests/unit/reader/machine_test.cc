// The file of what went wrong with a machine: what is read, and that nothing in it can do harm.
#include "core/reader/beside/machine.h"

#include <gtest/gtest.h>

namespace ncclwatch::reader {
namespace {

constexpr char kMachineFile[] =
    "ncclwatch.machine/1\n"
    "looked first 10 last 20 host node7\n"
    "unseen the kernel's log (Operation not permitted)\n"
    "event since 11 seen 12 gpu 0000:3B:00.0\n"
    "words GPU 0000:3B:00.0: clocks: held down by heat\n"
    "counter 7 mlx5_0 port 1: symbol_error\n"
    "state mlx5_0 port 1: state\n"
    "is 4: ACTIVE\n";

TEST(MachineFile, IsReadAsItIsWritten) {
  const auto look = ParseMachine(kMachineFile);
  ASSERT_TRUE(look);
  EXPECT_EQ(look->host, "node7");
  ASSERT_EQ(look->events.size(), 1u);
  EXPECT_EQ(look->events[0].gpu, "0000:3B:00.0");
  EXPECT_EQ(look->counters.at(0).value, 7);
  EXPECT_EQ(look->states.at(0).value, "4: ACTIVE");
  EXPECT_EQ(Format(*look, true), kMachineFile);
  const auto without = ParseMachine(Format(*look, false));
  ASSERT_TRUE(without);
  EXPECT_TRUE(without->counters.empty() && without->states.empty());
}

TEST(MachineFile, DamageIsPassedOver) {
  EXPECT_FALSE(ParseMachine(""));
  EXPECT_FALSE(ParseMachine("ncclwatch.machine/2\nlooked host a\n"));
  EXPECT_FALSE(ParseMachine("ncclwatch.machine/1\nlooked first 1 last 2\n")) << "of no host";
  const auto look = ParseMachine(
      "ncclwatch.machine/1\nlooked first x last \x1b host h\nis nothing\nwords of nothing\nevent since -\n"
      "counter 99999999999999999999 a\nsomething new\n");
  ASSERT_TRUE(look);
  EXPECT_TRUE(look->events.empty() && look->counters.empty() && look->states.empty());
}

TEST(MachineFile, IsBounded) {
  std::string text = "ncclwatch.machine/1\nlooked first 1 last 2 host h\n";
  for (int i = 0; i < 5000; ++i) text += "event since 1 seen 2\nwords w\n";
  const auto look = ParseMachine(text);
  ASSERT_TRUE(look);
  EXPECT_EQ(look->events.size(), kMostMachineEvents);
  EXPECT_EQ(MachineFile("a/../b"), "machine.a_.._b.txt");
}

}  // namespace
}  // namespace ncclwatch::reader
