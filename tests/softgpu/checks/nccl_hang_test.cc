// Where NCCL hangs, softgpu must hang: nothing is done after a bounded wait, and an abort ends it.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "nccl_harness.h"

namespace softgpu::checks {
namespace {

constexpr size_t kElements = 64;

// All ranks call, each its own way; every one must be stuck, and free after its abort.
void ExpectStuck(int nranks, const std::function<void(const World&, Rank&, float*)>& call) {
  std::barrier everybody(nranks);
  RunThreads(nranks, [&](const World& world) {
    std::vector<float> buffer(kElements * nranks, 1.0f);
    Rank rank(world);
    call(world, rank, buffer.data());
    EXPECT_FALSE(rank.DoneWithin(kNever)) << "rank " << world.rank;
    everybody.arrive_and_wait();
    rank.Abort();
    EXPECT_TRUE(rank.DoneWithin(kSoon)) << "rank " << world.rank;
  });
}

ncclResult_t AllReduce(Rank& rank, float* data, size_t count = kElements, ncclDataType_t type = ncclFloat32,
                       ncclRedOp_t op = ncclSum) {
  return ncclAllReduce(data, data, count, type, op, rank.comm, rank.stream);
}

TEST(Hang, MissingParticipant) {
  std::barrier everybody(4);
  RunThreads(4, [&](const World& world) {
    std::vector<float> data(kElements, 1.0f);
    Rank rank(world);
    if (world.rank != 2) {
      EXPECT_EQ(ncclSuccess, AllReduce(rank, data.data()));
      EXPECT_FALSE(rank.DoneWithin(kNever));
    }
    everybody.arrive_and_wait();
    // It was only late: when it comes, all go on.
    if (world.rank == 2) {
      EXPECT_EQ(ncclSuccess, AllReduce(rank, data.data()));
    }
    EXPECT_TRUE(rank.DoneWithin(kSoon));
    EXPECT_EQ(4.0f, data[0]);
    rank.Destroy();
  });
}

TEST(Hang, OtherOperation) {
  ExpectStuck(3, [](const World& world, Rank& rank, float* data) {
    if (world.rank == 1) {
      EXPECT_EQ(ncclSuccess, ncclBroadcast(data, data, kElements, ncclFloat32, 0, rank.comm, rank.stream));
    } else {
      EXPECT_EQ(ncclSuccess, AllReduce(rank, data));
    }
  });
}

TEST(Hang, CollectiveAgainstSend) {
  ExpectStuck(2, [](const World& world, Rank& rank, float* data) {
    EXPECT_EQ(ncclSuccess, world.rank == 1 ? ncclSend(data, kElements, ncclFloat32, 0, rank.comm, rank.stream)
                                           : AllReduce(rank, data));
  });
}

TEST(Hang, OtherCount) {
  ExpectStuck(3, [](const World& world, Rank& rank, float* data) {
    EXPECT_EQ(ncclSuccess, AllReduce(rank, data, world.rank == 2 ? kElements - 1 : kElements));
  });
}

TEST(Hang, OtherDatatype) {
  ExpectStuck(2, [](const World& world, Rank& rank, float* data) {
    EXPECT_EQ(ncclSuccess, AllReduce(rank, data, kElements / 2, world.rank == 1 ? ncclFloat64 : ncclFloat32));
  });
}

TEST(Hang, OtherReduction) {
  ExpectStuck(2, [](const World& world, Rank& rank, float* data) {
    EXPECT_EQ(ncclSuccess, AllReduce(rank, data, kElements, ncclFloat32, world.rank == 1 ? ncclMax : ncclSum));
  });
}

TEST(Hang, OtherRoot) {
  ExpectStuck(3, [](const World& world, Rank& rank, float* data) {
    const int root = world.rank == 0 ? 1 : 0;
    EXPECT_EQ(ncclSuccess, ncclBroadcast(data, data, kElements, ncclFloat32, root, rank.comm, rank.stream));
  });
}

TEST(Hang, OtherBytesInBroadcast) {
  ExpectStuck(2, [](const World& world, Rank& rank, float* data) {
    const ncclDataType_t type = world.rank == 0 ? ncclFloat32 : ncclInt8;
    EXPECT_EQ(ncclSuccess, ncclBroadcast(data, data, kElements, type, 0, rank.comm, rank.stream));
  });
}

TEST(Hang, ZeroCountOnOneRank) {
  std::barrier everybody(2);
  RunThreads(2, [&](const World& world) {
    std::vector<float> data(kElements, 1.0f);
    Rank rank(world);
    EXPECT_EQ(ncclSuccess, AllReduce(rank, data.data(), world.rank == 0 ? 0 : kElements));
    EXPECT_EQ(world.rank == 0, rank.DoneWithin(kNever));
    everybody.arrive_and_wait();
    rank.Abort();
  });
}

TEST(Hang, SendWithoutReceive) {
  std::barrier everybody(2);
  RunThreads(2, [&](const World& world) {
    std::vector<float> data(kElements, 1.0f);
    Rank rank(world);
    if (world.rank == 0) {
      EXPECT_EQ(ncclSuccess, ncclSend(data.data(), kElements, ncclFloat32, 1, rank.comm, rank.stream));
      EXPECT_FALSE(rank.DoneWithin(kNever));
    }
    everybody.arrive_and_wait();
    rank.Abort();
    EXPECT_TRUE(rank.DoneWithin(kSoon));
  });
}

TEST(Hang, SendOfAnotherSize) {
  ExpectStuck(2, [](const World& world, Rank& rank, float* data) {
    EXPECT_EQ(ncclSuccess, world.rank == 0 ? ncclSend(data, kElements, ncclFloat32, 1, rank.comm, rank.stream)
                                           : ncclRecv(data, kElements / 2, ncclFloat32, 0, rank.comm, rank.stream));
  });
}

TEST(Hang, SendsToOneAnotherWithoutAGroup) {
  ExpectStuck(2, [](const World& world, Rank& rank, float* data) {
    const int peer = 1 - world.rank;
    EXPECT_EQ(ncclSuccess, ncclSend(data, kElements, ncclFloat32, peer, rank.comm, rank.stream));
    EXPECT_EQ(ncclSuccess, ncclRecv(data + kElements, kElements, ncclFloat32, peer, rank.comm, rank.stream));
  });
}

// Two communicators in opposite order: stuck on one stream, fine on two.
void OppositeOrder(bool one_stream) {
  ncclUniqueId second;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&second));
  std::barrier everybody(2);
  RunThreads(2, [&](const World& world) {
    std::vector<float> data(2 * kElements, 1.0f);
    Rank a(world);
    Rank b(World{world.rank, world.nranks, second});
    const CUstream b_stream = one_stream ? a.stream : b.stream;
    const auto on_a = [&] { EXPECT_EQ(ncclSuccess, AllReduce(a, data.data())); };
    const auto on_b = [&] {
      EXPECT_EQ(ncclSuccess,
                ncclAllReduce(&data[kElements], &data[kElements], kElements, ncclFloat32, ncclSum, b.comm, b_stream));
    };
    if (world.rank == 0) {
      on_a();
      on_b();
    } else {
      on_b();
      on_a();
    }
    if (!one_stream) {
      EXPECT_TRUE(a.DoneWithin(kSoon));
      EXPECT_TRUE(b.DoneWithin(kSoon));
      EXPECT_EQ(2.0f, data[0]);
      EXPECT_EQ(2.0f, data[kElements]);
      return;
    }
    EXPECT_FALSE(a.DoneWithin(kNever));
    everybody.arrive_and_wait();
    // One by one this could wait for the other's stuck kernel on the same stream; NCCL asks to group aborts.
    EXPECT_EQ(ncclSuccess, ncclGroupStart());
    a.Abort();
    b.Abort();
    EXPECT_EQ(ncclSuccess, ncclGroupEnd());
    EXPECT_TRUE(a.DoneWithin(kSoon));
  });
}

TEST(Hang, OppositeOrderOnOneStream) { OppositeOrder(true); }
TEST(Hang, OppositeOrderOnTwoStreamsGoesThrough) { OppositeOrder(false); }

// Rank 1 dies; rank 0 waits for it.
SOFTGPU_BODY(DiesBeforeTheSecondCall) {
  std::vector<float> data(kElements, 1.0f);
  Rank rank(world);
  EXPECT_EQ(ncclSuccess, AllReduce(rank, data.data()));
  EXPECT_TRUE(rank.DoneWithin(kSoon));
  kill(getpid(), SIGKILL);
}

TEST(Hang, DeadPeer) {
  World world;
  world.nranks = 2;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&world.id));
  world.rank = 1;
  const pid_t peer = StartProcess(world, "DiesBeforeTheSecondCall");
  world.rank = 0;
  std::vector<float> data(kElements, 1.0f);
  Rank rank(world);
  EXPECT_EQ(ncclSuccess, AllReduce(rank, data.data()));
  EXPECT_TRUE(rank.DoneWithin(kSoon));
  WaitProcess(peer);
  EXPECT_EQ(ncclSuccess, AllReduce(rank, data.data()));
  EXPECT_FALSE(rank.DoneWithin(kNever));
  ncclResult_t error = ncclInternalError;
  EXPECT_EQ(ncclSuccess, ncclCommGetAsyncError(rank.comm, &error));
  EXPECT_EQ(ncclSuccess, error);
  rank.Abort();
  EXPECT_TRUE(rank.DoneWithin(kSoon));
}

// The same with SOFTGPU_NCCL_PEER_ERROR=1, in a process of its own: the death is reported, the kernel stays stuck.
SOFTGPU_BODY(SeesThePeerDie) {
  std::vector<float> data(kElements, 1.0f);
  Rank rank(world);
  EXPECT_EQ(ncclSuccess, AllReduce(rank, data.data()));
  EXPECT_TRUE(rank.DoneWithin(kSoon));
  EXPECT_EQ(ncclSuccess, AllReduce(rank, data.data()));
  ncclResult_t error = ncclSuccess;
  while (error == ncclSuccess) {
    EXPECT_EQ(ncclSuccess, ncclCommGetAsyncError(rank.comm, &error));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(ncclRemoteError, error);
  EXPECT_FALSE(rank.DoneWithin(std::chrono::milliseconds(50)));
  rank.Abort();
  EXPECT_TRUE(rank.DoneWithin(kSoon));
}

TEST(Hang, DeadPeerReportedWhereWanted) {
  World world;
  world.nranks = 2;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&world.id));
  const pid_t survivor = StartProcess(world, "SeesThePeerDie", {"SOFTGPU_NCCL_PEER_ERROR=1"});
  world.rank = 1;
  WaitProcess(StartProcess(world, "DiesBeforeTheSecondCall"));
  EXPECT_EQ(0, WaitProcess(survivor));
}

// Initialisation waits for all ranks; a rank with another idea of nranks is none of them.
void ExpectInitStuck(const std::vector<World>& worlds) {
  std::vector<ncclComm_t> comms(worlds.size(), nullptr);
  std::vector<std::thread> threads;
  std::atomic<int> returned{0};
  for (size_t i = 0; i < worlds.size(); ++i) {
    threads.emplace_back([&, i] {
      UseDevice();
      EXPECT_EQ(ncclInternalError, ncclCommInitRank(&comms[i], worlds[i].nranks, worlds[i].id, worlds[i].rank));
      ++returned;
    });
  }
  std::this_thread::sleep_for(kNever);
  EXPECT_EQ(0, returned.load());
  for (ncclComm_t& comm : comms)
    EXPECT_EQ(ncclSuccess, ncclCommAbort(std::atomic_ref(comm).load(std::memory_order_acquire)));
  for (std::thread& thread : threads) thread.join();
}

TEST(Hang, InitWithAMissingRank) {
  World world;
  world.nranks = 3;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&world.id));
  World other = world;
  other.rank = 2;
  ExpectInitStuck({world, other});
}

TEST(Hang, InitWithAnotherNumberOfRanks) {
  World world;
  world.nranks = 2;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&world.id));
  World other = world;
  other.rank = 1;
  other.nranks = 3;
  ExpectInitStuck({world, other});
}

TEST(Hang, InitWithTheSameRankTwice) {
  World world;
  world.nranks = 2;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&world.id));
  ExpectInitStuck({world, world});
}

TEST(Hang, SplitWithAMissingRank) {
  std::barrier everybody(3);
  RunThreads(3, [&](const World& world) {
    Rank rank(world);
    ncclComm_t child = nullptr;
    std::atomic<bool> returned{false};
    std::thread caller;
    if (world.rank != 1) {
      caller = std::thread([&, comm = rank.comm] {
        UseDevice();
        EXPECT_EQ(ncclInternalError, ncclCommSplit(comm, 0, world.rank, &child, nullptr));
        returned = true;
      });
    }
    std::this_thread::sleep_for(kNever);
    EXPECT_FALSE(returned.load());
    everybody.arrive_and_wait();
    rank.Abort();
    if (caller.joinable()) caller.join();
    ncclCommAbort(child);
  });
}

TEST(Hang, DestroyWaitsForWorkThatCannotEnd) {
  std::barrier everybody(2);
  RunThreads(2, [&](const World& world) {
    std::vector<float> data(kElements, 1.0f);
    Rank rank(world);
    std::atomic<bool> returned{false};
    std::thread caller;
    if (world.rank == 0) {
      EXPECT_EQ(ncclSuccess, AllReduce(rank, data.data()));
      caller = std::thread([&] {
        UseDevice();
        EXPECT_EQ(ncclSuccess, ncclCommFinalize(rank.comm));
        returned = true;
      });
      std::this_thread::sleep_for(kNever);
      EXPECT_FALSE(returned.load());
    }
    everybody.arrive_and_wait();
    if (world.rank == 1) {
      EXPECT_EQ(ncclSuccess, AllReduce(rank, data.data()));
    } else {
      caller.join();
    }
    EXPECT_TRUE(rank.DoneWithin(kSoon));
    rank.Destroy();
  });
}

}  // namespace
}  // namespace softgpu::checks
