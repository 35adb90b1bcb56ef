// message_race: wildcard receives that another message could have met, and all that makes that no fault.
#include <gtest/gtest.h>

#include "core/diagnose.h"
#include "tests/unit/diagnosis/verdicts.h"
#include "tests/unit/support/mpi_world.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Kind;

constexpr std::uint32_t kUntold = format::kNoStatus;
constexpr MpiMessage kWildcard = {.peer = kAny, .flags = kUntold};
constexpr MpiMessage kWildcardWithStatus = {.peer = kAny};

class Scene : public MpiJob {
 public:
  explicit Scene(int ranks) : MpiJob(ranks), ranks_(ranks) {}

  // A receive that was called with `as`, and met by the message.
  void Took(int rank, const MpiMessage& as, int source, int tag = 0) {
    const std::uint64_t slot = Recv(rank, as);
    Receipt(rank, slot, source, tag);
    Return(rank, slot);
  }
  void Found(int rank, const MpiMessage& as) { Return(rank, Probe(rank, as)); }
  void All(Function function, int root = format::kNoRank) {
    std::vector<std::uint64_t> slots;
    for (int rank = 0; rank < ranks_; ++rank) slots.push_back(Collective(rank, function, root));
    for (int rank = 0; rank < ranks_; ++rank) Return(rank, slots[static_cast<std::size_t>(rank)]);
  }
  void Waited(int rank, const std::vector<std::uint64_t>& requests) {
    const std::uint64_t slot = Wait(rank, Function::MPI_Waitall, requests);
    for (const std::uint64_t request : requests) Complete(rank, request);
    Return(rank, slot);
  }
  void Finalize() {
    for (int rank = 0; rank < ranks_; ++rank) Other(rank, Function::MPI_Finalize);
  }
  std::vector<diagnosis::Finding> Findings() {
    Finalize();
    return Diagnose().findings;
  }

 private:
  int ranks_;
};

void ExpectRace(Scene scene, Certainty certainty, const std::string& part_of_summary,
                const std::vector<int>& culprits = {0}) {
  scene.Finalize();
  const diagnosis::Diagnosis diagnosis = scene.Diagnose();
  Expect(diagnosis, Kind::kMessageRace, certainty, culprits);
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_EQ(diagnosis.findings.size(), 1u);
  EXPECT_NE(diagnosis.findings[0].summary.find(part_of_summary), std::string::npos) << diagnosis.findings[0].summary;
}

void ExpectNothing(Scene scene) {
  for (const diagnosis::Finding& finding : scene.Findings()) ADD_FAILURE() << finding.summary;
}

// Rank 0 receives from wildcard, then from rank 2; `between` is what lies between.
template <class Between>
Scene NamedAfterWildcard(const MpiMessage& as, const Between& between) {
  Scene scene(3);
  scene.Sent(1, {.peer = 0});
  scene.Took(0, as, 1);
  between(scene);
  scene.Sent(2, {.peer = 0});
  scene.Received(0, {.peer = 2});
  return scene;
}
Scene NamedAfterWildcard(const MpiMessage& as) {
  return NamedAfterWildcard(as, [](Scene&) {});
}

// ---- what is one --------------------------------------------------------------------------------------------------

TEST(MpiRace, NamedAfterWildcard) {
  ExpectRace(NamedAfterWildcard(kWildcard), Certainty::kLikely, "from rank 2 would have waited forever");
}

// A message without content cannot say whose it is.
TEST(MpiRace, NamedAfterAnEmptyMessage) {
  Scene scene(3);
  scene.Sent(1, {.peer = 0, .bytes = 0});
  scene.Took(0, {.peer = kAny, .bytes = 0, .flags = kUntold}, 1);
  scene.Sent(2, {.peer = 0, .bytes = 0});
  scene.Received(0, {.peer = 2, .bytes = 0});
  ExpectRace(scene, Certainty::kCertain, "from rank 2 would have waited forever");
}

// ... but not where the other receive was called before the first was over.
TEST(MpiRace, CalledBeforeTheFirstWasOver) {
  Scene scene(3);
  const auto wildcard = scene.Irecv(0, kWildcardWithStatus), named = scene.Irecv(0, {.peer = 2});
  scene.Sent(1, {.peer = 0});
  scene.Sent(2, {.peer = 0});
  scene.Receipt(0, wildcard, 1, 0);
  scene.Receipt(0, named, 2, 0);
  scene.Waited(0, {wildcard, named});
  ExpectRace(scene, Certainty::kCertain, "waited forever");
}

TEST(MpiRace, NothingOfThisOrdersThem) {
  ExpectRace(NamedAfterWildcard(kWildcard, [](Scene& scene) { scene.All(Function::MPI_Reduce, 0); }),
             Certainty::kLikely, "waited forever");
  ExpectRace(NamedAfterWildcard(kWildcard,
                                [](Scene& scene) {
                                  scene.Sent(0, {.peer = 1, .tag = 9});
                                  scene.Received(1, {.peer = 0, .tag = 9});
                                }),
             Certainty::kLikely, "waited forever");
}

// Rank 1 tells rank 2 that it has sent: the message may still be overtaken, which is rare.
TEST(MpiRace, OvertakenOnALongerWay) {
  ExpectRace(NamedAfterWildcard(kWildcard,
                                [](Scene& scene) {
                                  scene.Sent(1, {.peer = 2, .tag = 9});
                                  scene.Received(2, {.peer = 1, .tag = 9});
                                }),
             Certainty::kLikely, "waited forever");
  ExpectRace(NamedAfterWildcard(kWildcard, [](Scene& scene) { scene.All(Function::MPI_Bcast, 1); }), Certainty::kLikely,
             "waited forever");
}

TEST(MpiRace, OfAnotherSize) {
  Scene scene(3);
  scene.Sent(1, {.peer = 0, .bytes = 16});
  scene.Sent(2, {.peer = 0, .bytes = 32});
  scene.Took(0, {.peer = kAny, .bytes = 16}, 1);
  scene.Took(0, {.peer = kAny, .bytes = 32}, 2);
  ExpectRace(scene, Certainty::kCertain, "does not fit this receive");
}

Scene TheOtherReceiveIsSmaller(std::uint32_t flags) {
  Scene scene(3);
  scene.Sent(1, {.peer = 0, .bytes = 32});
  scene.Sent(2, {.peer = 0, .bytes = 16});
  scene.Took(0, {.peer = kAny, .bytes = 32, .flags = flags}, 1);
  scene.Took(0, {.peer = kAny, .bytes = 16, .flags = flags}, 2);
  return scene;
}

TEST(MpiRace, TheOtherReceiveIsSmaller) {
  ExpectRace(TheOtherReceiveIsSmaller(kUntold), Certainty::kLikely, "would have got a message that does not fit it");
}

TEST(MpiRace, OfAnotherType) {
  Scene scene(3);
  scene.Sent(1, {.peer = 0, .signature = 1});
  scene.Sent(2, {.peer = 0, .dtype = kMpiFloat, .signature = 2});
  scene.Took(0, {.peer = kAny, .signature = 1}, 1);
  scene.Took(0, {.peer = kAny, .dtype = kMpiFloat, .signature = 2}, 2);
  ExpectRace(scene, Certainty::kCertain, "does not fit this receive");
}

TEST(MpiRace, AnyTagTakesWhatOneTagWaitsFor) {
  Scene scene(3);
  scene.Sent(1, {.peer = 0, .tag = 1});
  scene.Sent(2, {.peer = 0, .tag = 2});
  scene.Took(0, {.peer = kAny, .tag = kAny, .flags = kUntold}, 1, 1);
  scene.Took(0, {.peer = kAny, .tag = 2}, 2, 2);
  ExpectRace(scene, Certainty::kLikely, "any source (another tag) would have waited forever");
}

// The room was made for what the probe had found; the receive asks anew.
TEST(MpiRace, WildcardReceiveAfterAProbe) {
  Scene scene(3);
  scene.Sent(1, {.peer = 0, .bytes = 16});
  scene.Sent(2, {.peer = 0, .bytes = 32});
  scene.Found(0, kWildcardWithStatus);
  scene.Took(0, {.peer = kAny, .bytes = 16}, 1);
  scene.Found(0, kWildcardWithStatus);
  scene.Took(0, {.peer = kAny, .bytes = 32}, 2);
  ExpectRace(scene, Certainty::kLikely, "does not fit this receive");
}

TEST(MpiRace, ReceivedByNobody) {
  Scene scene(3);
  scene.Sent(1, {.peer = 0});
  scene.Sent(2, {.peer = 0});
  scene.Took(0, kWildcard, 1);
  ExpectRace(scene, Certainty::kLikely, "was never received");
}

// Two messages each, and nothing between the wildcard receives and those by name.
TEST(MpiRace, SecondPhaseWithoutABarrier) {
  Scene scene(4);
  for (int rank = 1; rank < 4; ++rank) {
    scene.Sent(rank, {.peer = 0});
    scene.Sent(rank, {.peer = 0});
  }
  for (int rank = 1; rank < 4; ++rank) scene.Took(0, kWildcard, rank);
  for (int rank = 1; rank < 4; ++rank) scene.Received(0, {.peer = rank});
  ExpectRace(scene, Certainty::kLikely, "waited forever");
}

// Rank 2 has another message, but only once this one has been received.
TEST(MpiRace, WhatWouldDoComesTooLate) {
  Scene scene = NamedAfterWildcard(kWildcard);
  scene.Sent(0, {.peer = 2, .tag = 9});
  scene.Received(2, {.peer = 0, .tag = 9});
  scene.Sent(2, {.peer = 0});
  scene.Took(0, kWildcard, 2);
  ExpectRace(scene, Certainty::kLikely, "waited forever");
}

TEST(MpiRace, OnSeveralRanks) {
  Scene scene(3);
  for (int rank = 0; rank < 3; ++rank) {
    const int before = (rank + 2) % 3, next = (rank + 1) % 3;
    scene.Sent(before, {.peer = rank});
    scene.Sent(next, {.peer = rank});
    scene.Took(rank, kWildcard, before);
    scene.Received(rank, {.peer = next});
  }
  ExpectRace(scene, Certainty::kLikely, "waited forever", {0, 1, 2});
}

TEST(MpiRace, OnOneCommunicatorOfTwo) {
  Scene scene(4);
  const int part = scene.MpiComm({1, 2, 3});  // its ranks are 0, 1, 2
  scene.Sent(2, {.peer = 0, .comm = part});
  scene.Sent(3, {.peer = 0, .comm = part});
  scene.Took(1, {.peer = kAny, .comm = part, .flags = kUntold}, 1);
  scene.Received(1, {.peer = 2, .comm = part});
  ExpectRace(scene, Certainty::kLikely, "from rank 3 would have waited forever", {1});
}

// Played in virtual time: whenever it ends well, it is found; until then nothing is said.
TEST(MpiRace, WheneverItEndsWell) {
  const auto program = [](MpiWorld::Rank& self) -> Task {
    if (self.rank() == 0) {
      co_await self.Recv(kAny, 1, 64);
      co_await self.Recv(2, 1, 64);
    } else if (self.rank() < 3) {
      co_await self.Compute();
      co_await self.Send(0, 1, 64);
    }
  };
  int ended = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::vector<std::string> said;
    MpiWorld world(4, seed);
    const bool well = world.Run(program, 0.5, [&](const diagnosis::Snapshot& snapshot) {
      const diagnosis::Diagnosis diagnosis = diagnosis::Diagnose(snapshot);
      said.emplace_back(diagnosis.healthy() ? "" : Name(diagnosis.findings[0].kind));
    });
    if (!well) continue;
    ++ended;
    ASSERT_GE(said.size(), 2u);
    EXPECT_EQ(said.back(), "message_race") << seed;
    said.resize(said.size() - 2);  // at the end it is judged twice
    EXPECT_TRUE(std::all_of(said.begin(), said.end(), [](const std::string& kind) { return kind.empty(); })) << seed;
  }
  EXPECT_GT(ended, 5);
}

// ---- what it has led to -------------------------------------------------------------------------------------------

Scene Hanging(const MpiMessage& as) {
  Scene scene(3);
  scene.Sent(2, {.peer = 0});
  scene.Took(0, as, 2);
  scene.Sent(1, {.peer = 0});
  scene.Recv(0, {.peer = 2});
  scene.Collective(1, Function::MPI_Barrier);
  scene.Collective(2, Function::MPI_Barrier);
  return scene;
}

TEST(MpiRace, HasTakenWhatAReceiveWaitsFor) {
  const diagnosis::Diagnosis diagnosis = Hanging(kWildcard).Diagnose();
  Expect(diagnosis, Kind::kMessageRace, Certainty::kCertain, {0});
  ASSERT_FALSE(diagnosis.findings.empty());
  const diagnosis::Finding& finding = diagnosis.findings[0];
  EXPECT_NE(finding.summary.find("its later MPI_Recv from rank 2 waits forever"), std::string::npos) << finding.summary;
  EXPECT_NE(finding.summary.find("rank 1's message"), std::string::npos) << finding.summary;
}

// Both are waited for together, so that it is not told what the first has got: there is a message for each.
TEST(MpiRace, StandsStillAlthoughThereIsAMessageForEach) {
  for (const bool each : {true, false}) {
    Scene scene(3);
    const auto wildcard = scene.Irecv(0, kWildcard), named = scene.Irecv(0, {.peer = 2});
    scene.Sent(2, {.peer = 0});
    if (each) scene.Sent(1, {.peer = 0});
    scene.Wait(0, Function::MPI_Waitall, {wildcard, named});
    scene.Collective(1, Function::MPI_Barrier);
    scene.Collective(2, Function::MPI_Barrier);
    scene.Pass(100.0);
    const auto findings = scene.Diagnose().findings;
    ASSERT_FALSE(findings.empty());
    if (!each) {
      EXPECT_NE(Name(findings[0].kind), Name(Kind::kMessageRace)) << findings[0].summary;
      continue;
    }
    EXPECT_EQ(Name(findings[0].kind), Name(Kind::kMessageRace)) << findings[0].summary;
    EXPECT_EQ(Name(findings[0].certainty), Name(Certainty::kLikely));
    EXPECT_EQ(findings[0].culprits, (std::vector<int>{0}));
  }
}

// ... and the others wait for it in a cycle, one of them in a send that it might have taken.
TEST(MpiRace, IsOneOfACycleAlthoughThereIsAMessageForEach) {
  for (const bool early : {true, false}) {
    Scene scene(3);
    const auto wildcard = scene.Irecv(0, kWildcard), named = scene.Irecv(0, {.peer = 2});
    scene.Sent(2, {.peer = 0});
    scene.Ssend(1, {.peer = 0});
    scene.Wait(0, Function::MPI_Waitall, {wildcard, named});
    scene.Recv(2, {.peer = 1});
    scene.Pass(early ? 0.5 : 100.0);
    const auto findings = scene.Diagnose().findings;
    if (early) {
      EXPECT_TRUE(findings.empty());
      continue;
    }
    ASSERT_FALSE(findings.empty());
    EXPECT_EQ(Name(findings[0].kind), Name(Kind::kMessageRace)) << findings[0].summary;
    EXPECT_EQ(Name(findings[0].certainty), Name(Certainty::kLikely));
    EXPECT_EQ(findings[0].culprits, (std::vector<int>{0}));
    EXPECT_EQ(findings[0].victims, (std::vector<int>{1, 2}));
  }
}

// It waits for a third one besides, for which there is none.
TEST(MpiRace, NoneWhereAnotherReceiveWaitsInVain) {
  Scene scene(3);
  const auto wildcard = scene.Irecv(0, kWildcard), named = scene.Irecv(0, {.peer = 2});
  const auto third = scene.Irecv(0, {.peer = 1, .tag = 7});
  scene.Sent(2, {.peer = 0});
  scene.Sent(1, {.peer = 0});
  scene.Wait(0, Function::MPI_Waitall, {wildcard, named, third});
  scene.Recv(1, {.peer = 0, .tag = 8});
  scene.Pass(100.0);
  Expect(scene.Diagnose(), Kind::kDeadlock, Certainty::kCertain, {0, 1});
}

// Two messages of rank 2 for two receives: all have theirs.
TEST(MpiRace, NoneWhereThereAreEnoughMessages) {
  Scene scene(3);
  const auto wildcard = scene.Irecv(0, kWildcard), named = scene.Irecv(0, {.peer = 2});
  scene.Sent(2, {.peer = 0});
  scene.Sent(2, {.peer = 0});
  scene.Wait(0, Function::MPI_Waitall, {wildcard, named});
  scene.Recv(2, {.peer = 0, .tag = 5});
  scene.Pass(100.0);
  for (const diagnosis::Finding& finding : scene.Diagnose().findings)
    EXPECT_NE(Name(finding.kind), Name(Kind::kMessageRace)) << finding.summary;
}

TEST(MpiRace, MayHaveTakenWhatAReceiveWaitsFor) {
  const diagnosis::Diagnosis diagnosis = Hanging(kWildcardWithStatus).Diagnose();
  ASSERT_FALSE(diagnosis.findings.empty());
  const diagnosis::Finding& finding = diagnosis.findings[0];
  EXPECT_EQ(Name(finding.kind), Name(Kind::kDeadlock)) << finding.summary;
  const auto says = [](const std::string& line) { return line.starts_with("it may be a race: rank 0's earlier"); };
  EXPECT_TRUE(std::any_of(finding.evidence.begin(), finding.evidence.end(), says));
}

// Its sender could not have sent it before.
TEST(MpiRace, NoneWhereTheOtherCameLater) {
  Scene scene(3);
  scene.Sent(2, {.peer = 0});
  scene.Took(0, kWildcard, 2);
  scene.Sent(0, {.peer = 1, .tag = 9});
  scene.Received(1, {.peer = 0, .tag = 9});
  scene.Sent(1, {.peer = 0});
  scene.Recv(0, {.peer = 2});
  scene.Collective(1, Function::MPI_Barrier);
  scene.Collective(2, Function::MPI_Barrier);
  Expect(scene.Diagnose(), Kind::kDeadlock, Certainty::kCertain, {0, 2});
}

// ---- what is none -------------------------------------------------------------------------------------------------

TEST(MpiRace, OrderedByCollectives) {
  for (const Function function : {Function::MPI_Barrier, Function::MPI_Allreduce, Function::MPI_Allgather,
                                  Function::MPI_Alltoall, Function::MPI_Reduce_scatter})
    ExpectNothing(NamedAfterWildcard(kWildcard, [&](Scene& scene) { scene.All(function); }));
  ExpectNothing(NamedAfterWildcard(kWildcard, [](Scene& scene) { scene.All(Function::MPI_Bcast, 0); }));
  ExpectNothing(NamedAfterWildcard(kWildcard, [](Scene& scene) { scene.All(Function::MPI_Reduce, 2); }));
}

TEST(MpiRace, OrderedByAnAnswer) {
  ExpectNothing(NamedAfterWildcard(kWildcard, [](Scene& scene) {
    scene.Sent(0, {.peer = 2, .tag = 9});
    scene.Received(2, {.peer = 0, .tag = 9});
  }));
  ExpectNothing(NamedAfterWildcard(kWildcard, [](Scene& scene) {  // on a way over rank 1
    scene.Sent(0, {.peer = 1, .tag = 9});
    scene.Received(1, {.peer = 0, .tag = 9});
    scene.Sent(1, {.peer = 2, .tag = 9});
    scene.Received(2, {.peer = 1, .tag = 9});
  }));
}

// A send that waits for its receive orders what its sender does next; one that may do so accuses nobody either.
TEST(MpiRace, OrderedByASendThatWaits) {
  for (const bool synchronous : {true, false}) {
    Scene scene(3);
    const MpiMessage message = {.peer = 0, .bytes = synchronous ? kSmall : kLarge};
    const auto send = synchronous ? scene.Ssend(1, message) : scene.Send(1, message);
    scene.Took(0, {.peer = kAny, .bytes = kLarge, .flags = kUntold}, 1);
    scene.Return(1, send);
    scene.Sent(1, {.peer = 2, .tag = 9});
    scene.Received(2, {.peer = 1, .tag = 9});
    scene.Sent(2, {.peer = 0});
    scene.Received(0, {.peer = 2});
    ExpectNothing(scene);
  }
}

TEST(MpiRace, OrderedByARequestThatIsOver) {
  Scene scene(3);
  const auto wildcard = scene.Irecv(0, kWildcard);
  scene.Sent(1, {.peer = 0});
  scene.Receipt(0, wildcard, 1, 0);
  scene.Waited(0, {wildcard});
  scene.All(Function::MPI_Barrier);
  scene.Sent(2, {.peer = 0});
  scene.Received(0, {.peer = 2});
  ExpectNothing(scene);
}

// What MPI orders in ways that are not followed orders all.
TEST(MpiRace, OrderedInUnknownWays) {
  for (const Function function : {Function::MPI_Win_lock, Function::MPI_File_open, Function::MPI_Comm_spawn})
    ExpectNothing(NamedAfterWildcard(kWildcard, [&](Scene& scene) {
      for (int rank = 0; rank < 3; ++rank) scene.Other(rank, function);
    }));
}

// What was over before orders nothing, nor what begins after both.
TEST(MpiRace, UnknownWaysLeadNotBackInTime) {
  for (const Function function : {Function::MPI_Win_create, Function::MPI_File_open, Function::MPI_Comm_spawn}) {
    Scene scene(3);
    const auto all = [&] {
      for (int rank = 0; rank < 3; ++rank) scene.Other(rank, function);
      scene.Pass(0.1);
    };
    all();
    scene.Sent(1, {.peer = 0});
    scene.Took(0, kWildcard, 1);
    scene.Sent(2, {.peer = 0});
    scene.Received(0, {.peer = 2});
    scene.Pass(0.1);
    all();
    ExpectRace(scene, Certainty::kLikely, "waited forever");
  }
}

// Epochs say when the memory of a window may be looked into; shared memory is there all the time.
TEST(MpiRace, AWindowOrdersAsLongAsItIsShared) {
  for (const bool shared : {true, false}) {
    Scene scene(3);
    const auto all = [&](Function function) {
      for (int rank = 0; rank < 3; ++rank) scene.Other(rank, function);
      scene.Pass(0.1);
    };
    all(shared ? Function::MPI_Win_allocate_shared : Function::MPI_Win_create);
    all(Function::MPI_Win_post);
    scene.Sent(1, {.peer = 0});
    scene.Took(0, kWildcard, 1);
    scene.Sent(2, {.peer = 0});
    scene.Received(0, {.peer = 2});
    scene.Pass(0.1);
    all(Function::MPI_Win_sync);
    if (shared)
      ExpectNothing(scene);
    else
      ExpectRace(scene, Certainty::kLikely, "waited forever");
  }
}

TEST(MpiRace, OrderedByMakingACommunicator) {
  ExpectNothing(NamedAfterWildcard(kWildcard, [&](Scene& scene) {
    for (int rank = 0; rank < 3; ++rank) scene.Other(rank, Function::MPI_Comm_dup, kWorld);
  }));
}

TEST(MpiRace, AnswersInAnyOrder) {
  for (const MpiMessage& as : {kWildcard, kWildcardWithStatus}) {
    Scene scene(4);
    for (int round = 0; round < 3; ++round)
      for (int rank = 1; rank < 4; ++rank) {
        scene.Sent(rank, {.peer = 0, .bytes = static_cast<std::uint64_t>(4 * rank)});
        scene.Took(0, as, rank);
        scene.Sent(0, {.peer = rank, .tag = 5});
        scene.Received(rank, {.peer = 0, .tag = kAny});
      }
    ExpectNothing(scene);
  }
}

// A head from wildcard, its body from whoever that was: both are of one tag.
TEST(MpiRace, HeadAndBody) {
  Scene scene(3);
  for (int rank = 1; rank < 3; ++rank)
    for (const std::uint64_t bytes : {std::uint64_t{4}, std::uint64_t{64}})
      scene.Sent(rank, {.peer = 0, .bytes = bytes});
  for (int rank = 1; rank < 3; ++rank) {
    scene.Took(0, {.peer = kAny, .bytes = 4}, rank);
    scene.Received(0, {.peer = rank, .bytes = 64});
  }
  ExpectNothing(scene);
}

TEST(MpiRace, ReceivesThatFollowAProbe) {
  for (const Function receive : {Function::MPI_Recv, Function::MPI_Mrecv}) {
    Scene scene(4);
    const bool matched = receive == Function::MPI_Mrecv;
    for (int rank = 1; rank < 4; ++rank) {
      const auto bytes = 16 * static_cast<std::uint64_t>(rank);
      scene.Sent(rank, {.peer = 0, .tag = rank, .bytes = bytes});
      MpiMessage probe = {.peer = kAny, .tag = kAny};
      if (matched) probe.function = Function::MPI_Mprobe;
      scene.PollProbe(0, {.peer = kAny, .tag = kAny});
      scene.Found(0, probe);
      scene.Received(0, {.peer = rank, .tag = rank, .bytes = bytes, .function = receive});
    }
    ExpectNothing(scene);
  }
}

TEST(MpiRace, TagsOfOneSenderComeInOrder) {
  Scene scene(3);
  for (int tag = 1; tag < 4; ++tag)
    scene.Sent(1, {.peer = 0, .tag = tag, .bytes = static_cast<std::uint64_t>(8 * tag)});
  for (int tag = 1; tag < 4; ++tag)
    scene.Took(0, {.peer = 1, .tag = kAny, .bytes = static_cast<std::uint64_t>(8 * tag), .flags = kUntold}, 1, tag);
  ExpectNothing(scene);
}

TEST(MpiRace, OnlyOneMayHaveSent) {
  Scene scene(4);
  const int other = scene.MpiComm({0, 1, 2, 3});
  scene.Sent(1, {.peer = 0, .tag = 1});
  scene.Sent(2, {.peer = 0, .tag = 2});
  scene.Sent(3, {.peer = 0, .tag = 1, .comm = other});
  scene.Took(0, {.peer = kAny, .tag = 1, .flags = kUntold}, 1, 1);
  scene.Received(0, {.peer = 2, .tag = 2});
  scene.Received(0, {.peer = 3, .tag = 1, .comm = other});
  ExpectNothing(scene);
}

// The receive by name had been called before.
TEST(MpiRace, NamedBeforeWildcard) {
  Scene scene(3);
  const auto named = scene.Irecv(0, {.peer = 2}), wildcard = scene.Irecv(0, kWildcard);
  scene.Sent(1, {.peer = 0});
  scene.Sent(2, {.peer = 0});
  scene.Receipt(0, wildcard, 1, 0);
  scene.Receipt(0, named, 2, 0);
  scene.Waited(0, {named, wildcard});
  ExpectNothing(scene);
}

// With the rival taken, the receive by name gets the next message of that rank, and the last one what is left.
TEST(MpiRace, AnotherMessageWouldDo) {
  Scene scene(3);
  scene.Sent(1, {.peer = 0});
  scene.Sent(2, {.peer = 0});
  scene.Sent(2, {.peer = 0});
  scene.Took(0, kWildcard, 1);
  scene.Received(0, {.peer = 2});
  scene.Took(0, kWildcard, 2);
  ExpectNothing(scene);
}

// Who is told whose message it has got may call the next receive for it, even if that is done once.
TEST(MpiRace, WhoIsReportedMayHaveChosen) {
  ExpectNothing(NamedAfterWildcard(kWildcardWithStatus));
  ExpectNothing(TheOtherReceiveIsSmaller(0));
}

// Whoever comes first is served at once, all others by name; whose it is the message says.
TEST(MpiRace, FirstComerIsLeftOut) {
  Scene scene(4);
  for (int round = 0; round < 2; ++round) {
    const int first = 1 + round;
    for (int rank = 1; rank < 4; ++rank) scene.Sent(rank, {.peer = 0});
    scene.Took(0, kWildcard, first);
    for (int rank = 1; rank < 4; ++rank)
      if (rank != first) scene.Received(0, {.peer = rank});
    scene.All(Function::MPI_Barrier);
  }
  ExpectNothing(scene);
}

// ---- what nobody can say ------------------------------------------------------------------------------------------

TEST(MpiRace, NotBeforeAllHaveFinalized) {
  Scene scene = NamedAfterWildcard(kWildcard);
  for (int rank = 0; rank < 3; ++rank) {
    for (const diagnosis::Finding& finding : scene.Diagnose().findings) ADD_FAILURE() << finding.summary;
    scene.Other(rank, Function::MPI_Finalize);
  }
  EXPECT_EQ(scene.Diagnose().findings.size(), 1u);
}

TEST(MpiRace, NotWhereARingHasLostWhatMayOrderThem) {
  for (const int rank : {0, 1, 2}) {
    Scene scene(3);
    for (int i = 0; i < 4; ++i) scene.All(Function::MPI_Barrier);
    scene.Sent(1, {.peer = 0});
    scene.Pass(0.1);
    scene.Took(0, kWildcard, 1);
    scene.Pass(0.1);
    scene.Sent(2, {.peer = 0});
    scene.Received(0, {.peer = 2});
    Scene reaches_back = scene;
    reaches_back.Forget(rank, 2);
    ExpectRace(reaches_back, Certainty::kLikely, "waited forever");
    if (rank == 0) continue;
    scene.Forget(rank, rank == 1 ? 5 : 4);  // what rank 1 has sent; what rank 2 has done before it sent
    ExpectNothing(scene);
  }
}

TEST(MpiRace, NotOverThreads) {
  Scene scene = NamedAfterWildcard(kWildcard);
  scene.Sent(2, {.peer = 1, .tag = 5});
  scene.Box(2).calls.back().thread += 1;
  scene.Received(1, {.peer = 2, .tag = 5});
  ExpectNothing(scene);
}

TEST(MpiRace, NotWhereARankIsUnseen) {
  Scene unseen(4);
  unseen.Sent(1, {.peer = 0});
  unseen.Took(0, kWildcard, 1);
  unseen.Sent(2, {.peer = 0});
  unseen.Received(0, {.peer = 2});
  unseen.Finalize();
  unseen.Unseen(3);
  for (const diagnosis::Finding& finding : unseen.Diagnose().findings)
    EXPECT_NE(Name(finding.kind), Name(Kind::kMessageRace)) << finding.summary;
}

// ---- what it costs ------------------------------------------------------------------------------------------------

TEST(MpiRace, ManyWorkersAndManyAnswers) {
  constexpr int kRanks = 300;
  Scene scene(kRanks);
  for (int round = 0; round < 40; ++round)
    for (int rank = 1; rank < kRanks; ++rank) {
      scene.Sent(rank, {.peer = 0});
      scene.Took(0, kWildcard, rank);
    }
  scene.Sent(1, {.peer = 0, .bytes = 128});
  scene.Took(0, {.peer = kAny, .bytes = 128}, 1);  // one that is not like the others, ordered by nothing
  ExpectRace(scene, Certainty::kCertain, "does not fit this receive");
}

}  // namespace
}  // namespace ncclwatch::testing
