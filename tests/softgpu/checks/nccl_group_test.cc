// Groups, and sends and receives.
#include <numeric>
#include <thread>

#include "nccl_harness.h"

namespace softgpu::checks {
namespace {

std::vector<int> Counted(size_t n, int first) {
  std::vector<int> values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// A ring: everybody sends to the next and receives from the one before, all at once.
SOFTGPU_BODY(Ring) {
  Rank rank(world);
  const int next = (world.rank + 1) % world.nranks;
  const int before = (world.rank + world.nranks - 1) % world.nranks;
  // Empty, small, one chunk of shared memory, and several with a rest.
  for (const size_t count : {size_t{0}, size_t{1}, size_t{8192}, size_t{100003}}) {
    const std::vector<int> send = Counted(count, world.rank * 1000000);
    std::vector<int> receive(count, -1);
    EXPECT_EQ(ncclSuccess, ncclGroupStart());
    EXPECT_EQ(ncclSuccess, ncclSend(send.data(), count, ncclInt32, next, rank.comm, rank.stream));
    EXPECT_EQ(ncclSuccess, ncclRecv(receive.data(), count, ncclInt32, before, rank.comm, rank.stream));
    EXPECT_EQ(ncclSuccess, ncclGroupEnd());
    rank.Sync();
    EXPECT_EQ(Counted(count, before * 1000000), receive);
  }
  rank.Destroy();
}

class PointToPoint : public ::testing::TestWithParam<int> {};
TEST_P(PointToPoint, RingOfThreads) { RunThreads(GetParam(), Ring); }
TEST_P(PointToPoint, RingOfProcesses) { RunProcesses(GetParam(), "Ring"); }
INSTANTIATE_TEST_SUITE_P(Ranks, PointToPoint, ::testing::Values(1, 2, 5));

// Without groups: a pipeline, where each send meets its receive in order.
TEST(PointToPoint, Pipeline) {
  RunThreads(4, [](const World& world) {
    Rank rank(world);
    for (int step = 0; step < 20; ++step) {
      std::vector<int> data(100 + step, world.rank == 0 ? step : -1);
      if (world.rank > 0) {
        EXPECT_EQ(ncclSuccess, ncclRecv(data.data(), data.size(), ncclInt32, world.rank - 1, rank.comm, rank.stream));
      }
      if (world.rank < 3) {
        EXPECT_EQ(ncclSuccess, ncclSend(data.data(), data.size(), ncclInt32, world.rank + 1, rank.comm, rank.stream));
      }
      rank.Sync();
      EXPECT_EQ(std::vector<int>(100 + step, step), data);
    }
    rank.Destroy();
  });
}

TEST(PointToPoint, BytesOfAnotherType) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    std::vector<int> data(4, world.rank == 0 ? 0x01020304 : 0);
    EXPECT_EQ(ncclSuccess, world.rank == 0 ? ncclSend(data.data(), 4, ncclInt32, 1, rank.comm, rank.stream)
                                           : ncclRecv(data.data(), 16, ncclInt8, 0, rank.comm, rank.stream));
    rank.Sync();
    EXPECT_EQ(std::vector<int>(4, 0x01020304), data);
    rank.Destroy();
  });
}

TEST(PointToPoint, ManyMessagesOfOnePairInOneGroupKeepTheirOrder) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    std::vector<int> data = Counted(50, world.rank == 0 ? 100 : 0);
    EXPECT_EQ(ncclSuccess, ncclGroupStart());
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(ncclSuccess, world.rank == 0 ? ncclSend(&data[i], 1, ncclInt32, 1, rank.comm, rank.stream)
                                             : ncclRecv(&data[i], 1, ncclInt32, 0, rank.comm, rank.stream));
    }
    EXPECT_EQ(ncclSuccess, ncclGroupEnd());
    rank.Sync();
    EXPECT_EQ(Counted(50, 100), data);
    rank.Destroy();
  });
}

TEST(PointToPoint, ToOneselfNeedsBothSides) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    int from = 7 + world.rank;
    int to = 0;
    EXPECT_EQ(ncclInvalidUsage, ncclSend(&from, 1, ncclInt32, world.rank, rank.comm, rank.stream));
    EXPECT_STREQ("Trying to send to self without a matching recv", ncclGetLastError(nullptr));
    EXPECT_EQ(ncclSuccess, ncclGroupStart());
    EXPECT_EQ(ncclSuccess, ncclSend(&from, 1, ncclInt32, world.rank, rank.comm, rank.stream));
    EXPECT_EQ(ncclSuccess, ncclRecv(&to, 1, ncclInt32, world.rank, rank.comm, rank.stream));
    EXPECT_EQ(ncclSuccess, ncclGroupEnd());
    rank.Sync();
    EXPECT_EQ(from, to);
    rank.Destroy();
  });
}

// An AlltoAll is sends and receives, so it meets a peer that spells them out.
#if NCCL_VERSION_CODE >= 22803
TEST(Group, AlltoAllMeetsSendsAndReceives) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    std::vector<int> send = {world.rank * 10, world.rank * 10 + 1};
    std::vector<int> receive(2, -1);
    if (world.rank == 0) {
      EXPECT_EQ(ncclSuccess, ncclAlltoAll(send.data(), receive.data(), 1, ncclInt32, rank.comm, rank.stream));
    } else {
      EXPECT_EQ(ncclSuccess, ncclGroupStart());
      for (int peer = 0; peer < 2; ++peer) {
        EXPECT_EQ(ncclSuccess, ncclSend(&send[peer], 1, ncclInt32, peer, rank.comm, rank.stream));
        EXPECT_EQ(ncclSuccess, ncclRecv(&receive[peer], 1, ncclInt32, peer, rank.comm, rank.stream));
      }
      EXPECT_EQ(ncclSuccess, ncclGroupEnd());
    }
    rank.Sync();
    EXPECT_EQ((std::vector<int>{world.rank, 10 + world.rank}), receive);
    rank.Destroy();
  });
}
#endif

TEST(Group, NothingStartsBeforeTheOutermostEnd) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    int value = 1;
    EXPECT_EQ(ncclSuccess, ncclGroupStart());
    EXPECT_EQ(ncclSuccess, ncclGroupStart());
    EXPECT_EQ(ncclSuccess, ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    EXPECT_EQ(ncclSuccess, ncclGroupEnd());
    EXPECT_TRUE(rank.DoneWithin(std::chrono::milliseconds(20)));
    EXPECT_EQ(1, value);
    EXPECT_EQ(ncclSuccess, ncclGroupEnd());
    rank.Sync();
    EXPECT_EQ(2, value);
    EXPECT_EQ(ncclInvalidUsage, ncclGroupEnd());
    rank.Destroy();
  });
}

// Equal sets of collectives in different order within a group: NCCL sorts them.
TEST(Group, OrderWithinAGroupDoesNotMatter) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    std::vector<int> small(3, 1);
    std::vector<int> large(5000, 2);
    int root = 40 + world.rank;
    const auto reduce_small = [&] {
      EXPECT_EQ(ncclSuccess, ncclAllReduce(small.data(), small.data(), 3, ncclInt32, ncclSum, rank.comm, rank.stream));
    };
    const auto reduce_large = [&] {
      EXPECT_EQ(ncclSuccess,
                ncclAllReduce(large.data(), large.data(), 5000, ncclInt32, ncclProd, rank.comm, rank.stream));
    };
    const auto broadcast = [&] { EXPECT_EQ(ncclSuccess, ncclBcast(&root, 1, ncclInt32, 1, rank.comm, rank.stream)); };
    EXPECT_EQ(ncclSuccess, ncclGroupStart());
    if (world.rank == 0) {
      reduce_small();
      reduce_large();
      broadcast();
    } else {
      broadcast();
      reduce_large();
      reduce_small();
    }
    EXPECT_EQ(ncclSuccess, ncclGroupEnd());
    rank.Sync();
    EXPECT_EQ(std::vector<int>(3, 2), small);
    EXPECT_EQ(std::vector<int>(5000, 4), large);
    EXPECT_EQ(41, root);
    rank.Destroy();
  });
}

// One thread drives all ranks, as a single process with several devices does.
TEST(Group, OneThreadDrivesAllRanks) {
  constexpr int kRanks = 4;
  ncclUniqueId id;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&id));
  std::vector<ncclComm_t> comms(kRanks);
  std::vector<CUstream> streams;
  ASSERT_EQ(ncclSuccess, ncclGroupStart());
  for (int r = 0; r < kRanks; ++r) {
    streams.push_back(NewStream());
    ASSERT_EQ(ncclSuccess, ncclCommInitRank(&comms[r], kRanks, id, r));
  }
  ASSERT_EQ(ncclSuccess, ncclGroupEnd());
  std::vector<int> values(kRanks, 3);
  ASSERT_EQ(ncclSuccess, ncclGroupStart());
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(ncclSuccess, ncclAllReduce(&values[r], &values[r], 1, ncclInt32, ncclSum, comms[r], streams[r]));
  }
  ASSERT_EQ(ncclSuccess, ncclGroupEnd());
  for (CUstream stream : streams) EXPECT_TRUE(StreamDoneWithin(stream, kSoon));
  EXPECT_EQ(std::vector<int>(kRanks, 12), values);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclSuccess, ncclCommDestroy(comm));
  for (CUstream stream : streams) cuStreamDestroy(stream);
}

// A send on one stream and a receive on another are one kernel, so two such ranks do not wait for one another in turn.
TEST(Group, SeveralStreamsOfOneCommunicator) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    const CUstream other = NewStream();
    const int peer = 1 - world.rank;
    for (int i = 0; i < 50; ++i) {
      std::vector<int> send = Counted(1000, world.rank);
      std::vector<int> receive(1000, -1);
      EXPECT_EQ(ncclSuccess, ncclGroupStart());
      EXPECT_EQ(ncclSuccess, ncclSend(send.data(), 1000, ncclInt32, peer, rank.comm, world.rank ? other : rank.stream));
      EXPECT_EQ(ncclSuccess,
                ncclRecv(receive.data(), 1000, ncclInt32, peer, rank.comm, world.rank ? rank.stream : other));
      EXPECT_EQ(ncclSuccess, ncclGroupEnd());
      EXPECT_TRUE(StreamDoneWithin(other, kSoon));
      EXPECT_EQ(Counted(1000, peer), receive);
      rank.Sync();
    }
    rank.Destroy();
    cuStreamDestroy(other);
  });
}

// Calls of one communicator run in the order of the calls, whatever their streams.
TEST(Group, CallsOnTwoStreamsKeepTheirOrder) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    const CUstream other = NewStream();
    std::vector<int> a(100, 1);
    std::vector<int> b(100, 1);
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(ncclSuccess, ncclAllReduce(&a[i], &a[i], 1, ncclInt32, ncclSum, rank.comm, rank.stream));
      EXPECT_EQ(ncclSuccess, ncclBcast(&b[i], 1, ncclInt32, 0, rank.comm, other));
    }
    rank.Sync();
    EXPECT_TRUE(StreamDoneWithin(other, kSoon));
    EXPECT_EQ(std::vector<int>(100, 2), a);
    rank.Destroy();
    cuStreamDestroy(other);
  });
}

TEST(Group, ArgumentErrorSpoilsTheGroup) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    int value = 1;
    EXPECT_EQ(ncclSuccess, ncclGroupStart());
    EXPECT_EQ(ncclSuccess, ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    EXPECT_EQ(ncclInvalidArgument, ncclBcast(&value, 1, ncclInt32, 2, rank.comm, rank.stream));
    EXPECT_EQ(ncclInvalidArgument, ncclGroupEnd());
    rank.Sync();
    EXPECT_EQ(1, value);
    EXPECT_EQ(ncclSuccess, ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    rank.Sync();
    EXPECT_EQ(2, value);
    rank.Destroy();
  });
}

#if NCCL_VERSION_CODE >= 22200
TEST(Group, SimulatedGroupStartsNothing) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    int value = 1;
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    EXPECT_EQ(ncclSuccess, ncclGroupStart());
    EXPECT_EQ(ncclSuccess, ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    EXPECT_EQ(ncclSuccess, ncclGroupSimulateEnd(&info));
    EXPECT_GT(info.estimatedTime, 0.0f);
    rank.Sync();
    EXPECT_EQ(1, value);
    rank.Destroy();
  });
}
#endif

// A captured collective runs once per launch of the graph, and again.
TEST(Group, CapturedIntoAGraph) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    int value = 1;
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    ASSERT_EQ(CUDA_SUCCESS, cuStreamBeginCapture(rank.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    EXPECT_EQ(ncclSuccess, ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    ASSERT_EQ(CUDA_SUCCESS, cuStreamEndCapture(rank.stream, &graph));
    EXPECT_EQ(1, value);
    ASSERT_EQ(CUDA_SUCCESS, cuGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 10; ++i) ASSERT_EQ(CUDA_SUCCESS, cuGraphLaunch(executable, rank.stream));
    EXPECT_EQ(ncclSuccess, ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    rank.Sync();
    EXPECT_EQ(1 << 11, value);
    EXPECT_EQ(CUDA_SUCCESS, cuGraphExecDestroy(executable));
    EXPECT_EQ(CUDA_SUCCESS, cuGraphDestroy(graph));
    rank.Destroy();
  });
}

}  // namespace
}  // namespace softgpu::checks
