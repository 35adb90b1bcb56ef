// Ranks in different environments, and what machines counted: who is named, and when nothing is said.
#include <gtest/gtest.h>

#include "core/slow/machine.h"
#include "core/slow/skew.h"
#include "ncclwatch/format/environment.h"
#include "tests/unit/support/job_builder.h"

namespace ncclwatch::diagnosis {
namespace {

using testing::AllReduce;
using testing::Job;

struct Said {
  std::string environment;
  std::uint32_t nccl = 22703;
};

std::optional<Finding> Skew(const std::vector<Said>& ranks) {
  Job job(static_cast<int>(ranks.size()));
  job.Done(testing::Range(0, static_cast<int>(ranks.size())), Job::kWorld, AllReduce());
  diagnosis::Snapshot snapshot = job.Snapshot();
  for (reader::BoxImage& box : snapshot.boxes) {
    const Said& said = ranks[static_cast<std::size_t>(box.rank)];
    box.environment = said.environment;
    box.nccl_version = said.nccl;
  }
  return FindSkew(MakeView(snapshot));
}

TEST(Skew, AlikeIsNoFinding) {
  EXPECT_FALSE(Skew({{"NCCL_ALGO=Ring\n"}, {"NCCL_ALGO=Ring\n"}, {"NCCL_ALGO=Ring\n"}}));
  EXPECT_FALSE(Skew({{"\n"}, {"\n"}}));
}

TEST(Skew, OneOfFour) {
  const auto found = Skew({{"A=1\nNCCL_PROTO=LL\n"}, {"A=1\n"}, {"A=1\n"}, {"A=1\n"}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->culprits, std::vector<int>{0});
  EXPECT_EQ(found->certainty, Certainty::kSuspected);
  EXPECT_EQ(found->evidence, std::vector<std::string>{"NCCL_PROTO: unset on ranks 1-3, 'LL' on rank 0"});
}

TEST(Skew, OneAgainstOneAccusesNobody) {
  const auto found = Skew({{"NCCL_PROTO=LL\n"}, {"\n"}});
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->culprits.empty());
}

TEST(Skew, AnotherVersionOfNcclIsLikely) {
  const auto found = Skew({{"\n"}, {"\n", 22105}, {"\n"}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->certainty, Certainty::kLikely);
  EXPECT_EQ(found->culprits, std::vector<int>{1});
  EXPECT_EQ(found->evidence.front(), "the version of NCCL: '2.27.3' on ranks 0,2, '2.21.5' on rank 1");
}

TEST(Skew, WhatHostsMayDifferIn) {
  EXPECT_FALSE(Skew({{"NCCL_SOCKET_IFNAME=eth0\nNCCL_IB_HCA=mlx5_0\nUCX_NET_DEVICES=mlx5_0:1\n"}, {"\n"}, {"\n"}}));
}

TEST(Skew, WhoSaysNothingDoesNotDiffer) {
  EXPECT_FALSE(Skew({{"NCCL_ALGO=Ring\n"}, {""}, {"NCCL_ALGO=Ring\n"}}));  // an older writer
  EXPECT_FALSE(Skew({{"driver=560.1\nNCCL_ALGO=Ring\n"}, {"NCCL_ALGO=Ring\n"}}));
  EXPECT_FALSE(Skew({{"A=1\n..."}, {"A=1\nNCCL_ALGO=Ring\n"}, {"A=1\nNCCL_ALGO=Ring\n"}}));  // it had no room
}

TEST(Skew, AnyBytes) {
  EXPECT_FALSE(Skew({{"=\n==\n\n\xff"}, {"=\n==\n\n\xff"}}));
  const auto found = Skew({{"NCCL_\xff\x01=1\n"}, {"\n"}, {"\n"}});
  ASSERT_TRUE(found);
  for (const char letter : found->summary) EXPECT_TRUE(letter >= ' ' && letter <= '~') << found->summary;
}

TEST(Skew, WhichVariablesAreReported) {
  EXPECT_TRUE(format::ShouldBeAlike("NCCL_ALGO") && format::ShouldBeAlike("OMPI_MCA_btl"));
  EXPECT_FALSE(format::ShouldBeAlike("OMPI_MCA_orte_ess_vpid") || format::ShouldBeAlike("NCCL_HOSTID"));
  EXPECT_FALSE(format::ShouldBeAlike("HOME"));
}

// ---- machines
// --------------------------------------------------------------------------------------------------------

constexpr std::int64_t kS = 1'000'000'000, kBegan = 1'800'000'000 * kS;

Finding Of(Kind kind, const std::string& host, const std::string& bus = "") {
  Finding finding;
  finding.kind = kind;
  finding.culprits = {3};
  Culprit culprit;
  culprit.rank = 3;
  culprit.host = host;
  if (!bus.empty()) culprit.gpu = Gpu{"", bus, 0};
  finding.culprit_details = {culprit};
  finding.began_at_ns = kBegan;
  finding.detected_at_ns = kBegan + 60 * kS;
  return finding;
}

std::vector<std::string> Quoted(Finding finding, const std::vector<reader::MachineEvent>& events) {
  std::vector<Finding> findings = {std::move(finding)};
  AddMachines({{"node1", kBegan - 900 * kS, kBegan + 60 * kS, events, {"the kernel's log"}, {}, {}}}, &findings);
  return findings.front().evidence;
}

TEST(Machines, TheCulpritsHostInTime) {
  const reader::MachineEvent rose{kBegan - 60 * kS, kBegan + kS, "", "mlx5_0 port 1: symbol_error rose by 5 to 9"};
  EXPECT_EQ(
      Quoted(Of(Kind::kStraggler, "node1"), {rose}),
      std::vector<std::string>{"the machine: node1, between 07:59:00 and 08:00:01 UTC: mlx5_0 port 1: symbol_error "
                               "rose by 5 to 9"});
  EXPECT_TRUE(Quoted(Of(Kind::kStraggler, "node2"), {rose}).empty());
  const reader::MachineEvent before{kBegan - 800 * kS, kBegan - 700 * kS, "", "long ago"};
  const reader::MachineEvent later{kBegan + 90 * kS, kBegan + 100 * kS, "", "later"};
  EXPECT_TRUE(Quoted(Of(Kind::kStraggler, "node1"), {before, later}).empty());
}

TEST(Machines, OneLineForWhatIsSaidAgain) {
  const std::string xid = "kernel log: NVRM: Xid 13";
  EXPECT_EQ(Quoted(Of(Kind::kStraggler, "node1"), {{kBegan, kBegan, "", xid},
                                                   {kBegan + kS, kBegan + kS, "", "mce"},
                                                   {kBegan + 2 * kS, kBegan + 2 * kS, "", xid}}),
            (std::vector<std::string>{"the machine: node1, 2 times until 08:00:02 UTC: " + xid,
                                      "the machine: node1, 08:00:01 UTC: mce"}));
}

TEST(Machines, AreNotQuotedTwice) {
  Finding finding = Of(Kind::kStraggler, "node1");
  finding.evidence = {"the others wait for it", "the machine: node1, 08:00:00 UTC: oom"};
  finding.machine_lines = {finding.evidence.back()};
  EXPECT_EQ(Quoted(std::move(finding), {{kBegan, kBegan, "", "oom"}, {kBegan + kS, kBegan + kS, "", "mce"}}),
            (std::vector<std::string>{"the others wait for it", "the machine: node1, 08:00:00 UTC: oom",
                                      "the machine: node1, 08:00:01 UTC: mce"}));
}

TEST(Machines, OfGpusThatOfTheCulprit) {
  const reader::MachineEvent heat{kBegan, kBegan + kS, "00000000:3B:00.0",
                                  "GPU 00000000:3B:00.0: clocks: held down by heat"};
  EXPECT_EQ(Quoted(Of(Kind::kStraggler, "node1", "0000:3b:00.0"), {heat}).size(), 1u);
  EXPECT_TRUE(Quoted(Of(Kind::kStraggler, "node1", "0000:5e:00.0"), {heat}).empty());
  EXPECT_EQ(Quoted(Of(Kind::kStraggler, "node1"), {heat}).size(), 1u) << "which GPU the rank has is not known";
}

TEST(Machines, NothingRoseIsSaidOfLinks) {
  EXPECT_EQ(
      Quoted(Of(Kind::kSlowCommunication, "node1"), {}),
      std::vector<std::string>{"the machine: no error counter of node1 has risen since 07:45:00 UTC; not looked at: "
                               "the kernel's log"});
  EXPECT_TRUE(Quoted(Of(Kind::kDeadRank, "node1"), {}).empty());
}

}  // namespace
}  // namespace ncclwatch::diagnosis
