// What a node that means ill can make its hub keep.
#include <gtest/gtest.h>

#include "core/nodes/image_code.h"
#include "core/nodes/messages.h"
#include "core/nodes/table.h"
#include "tests/unit/nodes/faults.h"
#include "tests/unit/nodes/network.h"

namespace ncclwatch::testing {
namespace {

using nodes::Kind;
using nodes::Outcome;

struct Silence : nodes::MessageSender {
  bool Send(const std::string&, Kind kind, std::string) override {
    asked += kind == Kind::kFetch;
    return true;
  }
  int asked = 0;
};

nodes::ProcessNow Process(std::uint32_t pid) {
  nodes::ProcessNow process;
  process.pid = pid;
  process.start_time = 1;
  process.host = "host";
  return process;
}

std::string FirstWords(const nodes::NodeNow& now, std::uint32_t session) {
  nodes::Reporter reporter;
  reporter.Begin(session);
  return reporter.Look(now).at(0);
}

TEST(NodesBounds, NamesThatComeAndGoAreForgotten) {
  Silence post;
  nodes::Hub hub(&post, "own");
  hub.Join("own", 1);
  const nodes::NodeNow now{1, 0, {Process(1)}, {}};
  const std::string body = FirstWords(now, 1);
  for (std::size_t i = 0; i < nodes::kMostNodes + 1000; ++i) {
    const std::string name = "node " + std::to_string(i);
    hub.Join(name, static_cast<std::int64_t>(i + 2));
    hub.TakeSummary(name, body, static_cast<std::int64_t>(i + 2));
    hub.TakeRecords(name, "nothing");
    hub.Leave(name, true, static_cast<std::int64_t>(i + 2));
  }
  EXPECT_EQ(hub.table().nodes().size(), nodes::kMostNodes);
  EXPECT_TRUE(hub.table().nodes().contains("own"));
  EXPECT_FALSE(hub.table().nodes().contains("node 0")) << "the first that left";
}

TEST(NodesBounds, SoManyNodesAtOnceAndNoMore) {
  Silence post;
  nodes::Hub hub(&post, "own");
  hub.Join("own", 1);
  const nodes::NodeNow now{1, 0, {Process(1)}, {}};
  for (std::size_t i = 1; i < nodes::kMostNodes + 10; ++i) hub.Join("node " + std::to_string(i), 2);
  EXPECT_EQ(hub.table().nodes().size(), nodes::kMostNodes);
  const int asked = post.asked;
  const std::string late = "node " + std::to_string(nodes::kMostNodes + 5);
  hub.TakeSummary(late, FirstWords(now, 1), 3);
  hub.TakeSummary(late, "damaged", 1'000'000'000'000);
  EXPECT_FALSE(hub.table().nodes().contains(late));
  EXPECT_EQ(post.asked, asked) << "who is not known is not asked";
}

TEST(NodesBounds, TheListOfTheDeadEnds) {
  nodes::Table table;
  table.Join("host", 1);
  std::uint32_t pid = 1;
  for (std::uint32_t session = 1; session <= 12; ++session) {
    nodes::NodeNow now{1, 0, {Process(1)}, {}};
    for (std::size_t i = 0; i < nodes::kMostObservations; ++i) {
      reader::Observation seen;
      seen.pid = ++pid;
      seen.rank = static_cast<std::int32_t>(pid);
      seen.what = format::Observed::kGone;
      now.processes[0].observations.push_back(seen);
    }
    ASSERT_EQ(table.Tell("host", FirstWords(now, session), 1), Outcome::kTaken);
  }
  EXPECT_EQ(table.deaths(), static_cast<int>(nodes::kMostDead));
}

// Words are long, and a process may say them all again.
nodes::NodeNow Talkative(std::uint32_t processes, std::size_t frames) {
  nodes::NodeNow now{1, 0, {}, {}};
  for (std::uint32_t pid = 1; pid <= processes; ++pid) {
    now.processes.push_back(Process(pid));
    reader::FatalSignal& signal = now.processes.back().words.signals.emplace_back();
    for (std::size_t i = 0; i < frames; ++i) signal.frames.push_back({1, 1, std::string(4000, 'm')});
    now.processes.back().words_said = 1;
  }
  return now;
}

TEST(NodesBounds, ANodeThatTellsTooMuchIsNotTakenAndSaidSo) {
  Silence post;
  nodes::Hub hub(&post, "own");
  hub.Join("own", 1);
  hub.Join("loud", 1);
  hub.Join("other", 1);
  nodes::Reporter reporter;
  reporter.Begin(1);
  for (const std::string& body : reporter.Look(Talkative(128, 200))) hub.TakeSummary("loud", body, 2);
  EXPECT_TRUE(hub.crowded().contains("loud"));
  EXPECT_TRUE(hub.table().nodes().at("loud").processes.empty()) << "half of it looks like the whole";
  EXPECT_EQ(hub.table().nodes().at("loud").made, 0u);
  const int asked = post.asked;
  hub.TakeSummary("loud", FirstWords(Talkative(1, 1), 1), 1'000'000'000'000);
  EXPECT_EQ(post.asked, asked);
  // Others are taken; so is this one, when it tells less.
  hub.TakeSummary("other", FirstWords(Talkative(2, 20), 1), 3);
  EXPECT_EQ(hub.table().nodes().at("other").processes.size(), 2u);
  hub.TakeSummary("loud", FirstWords(Talkative(2, 20), 2), 4);
  EXPECT_FALSE(hub.crowded().contains("loud"));
  EXPECT_EQ(hub.table().nodes().at("loud").processes.size(), 2u);
}

TEST(NodesBounds, WordsSaidAgainTakeNoMoreRoom) {
  nodes::Table table;
  table.Join("host", 1);
  nodes::NodeNow now = Talkative(1, 200);
  nodes::Reporter reporter;
  reporter.Begin(1);
  for (int i = 0; i < 200; ++i) {
    now.now_ns += 2'000'000'000;
    ++now.processes[0].words_said;
    for (const std::string& body : reporter.Look(now)) ASSERT_EQ(table.Tell("host", body, 1), Outcome::kTaken) << i;
  }
  EXPECT_LT(table.nodes().at("host").made, 2u << 20);
}

// What memory a session took is free for the next one.
TEST(NodesBounds, ANewSessionStartsWithNothing) {
  nodes::Table table;
  table.Join("host", 1);
  std::size_t made = 0;
  for (std::uint32_t session = 1; session < 200; ++session) {
    ASSERT_EQ(table.Tell("host", FirstWords(Talkative(1, 50), session), 1), Outcome::kTaken);
    if (session == 1) made = table.nodes().at("host").made;
    ASSERT_EQ(table.nodes().at("host").made, made);
  }
  EXPECT_GT(made, 50u * 4000);
}

TEST(NodesBounds, PiecesAreTakenOnlyOfWhomTheyWereAsked) {
  Silence post;
  nodes::Hub hub(&post, "own");
  hub.Join("own", 1);
  hub.Join("asked", 1);
  hub.Join("other", 1);
  hub.Gather({"asked"}, 0, 2);
  const std::vector<std::string> pieces = nodes::InPieces(1, std::string(2 * nodes::kPiece, 'x'));
  hub.TakeRecords("asked", pieces[0]);
  EXPECT_EQ(hub.refused(), 0u);
  hub.TakeRecords("other", pieces[0]);
  EXPECT_EQ(hub.refused(), 1u);
  hub.TakeRecords("nobody", pieces[0]);
  EXPECT_EQ(hub.refused(), 2u);
}

TEST(NodesBounds, PiecesOfAllTogetherAreBounded) {
  Silence post;
  nodes::Hub hub(&post, "own");
  hub.Join("own", 1);
  std::vector<std::string> names;
  for (int i = 0; i < 4; ++i) hub.Join(names.emplace_back("node " + std::to_string(i)), 1);
  hub.Gather(names, 0, 2);
  // Each of them could send 64 MiB and never the last piece.
  const std::vector<std::string> pieces = nodes::InPieces(1, std::string(nodes::kMostWhole, 'x'));
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i)
    for (const std::string& name : names) hub.TakeRecords(name, pieces[i]);
  EXPECT_GT(hub.refused(), 0u);
}

TEST(NodesBounds, FewBytesThatStandForManyAreRefused) {
  reader::BoxImage box;
  for (std::uint64_t slot = 0; slot < 100'000; ++slot) box.calls.emplace_back().slot = slot;
  const std::vector<std::string> bodies = nodes::Answer({1, UINT64_MAX, 0, nodes::kMostWhole}, {box, box});
  nodes::Pieces pieces;
  std::optional<std::string> whole;
  bool damaged = false;
  for (const std::string& body : bodies) whole = pieces.Add(body, &damaged);
  ASSERT_TRUE(whole);
  const auto records = nodes::ReadRecords(*whole);
  ASSERT_TRUE(records);
  EXPECT_GE(records->made, 200'000 * sizeof(reader::Call));
  EXPECT_GT(records->made, 5 * whole->size());
  EXPECT_FALSE(nodes::ReadRecords(*whole, records->made - 1));
}

}  // namespace
}  // namespace ncclwatch::testing
