// Programs of MPI in which nothing is wrong, cut at random instants: no finding, whatever the copies of the boxes show.
#include <gtest/gtest.h>

#include <string>

#include "core/diagnose.h"
#include "tests/unit/support/mpi_world.h"

namespace ncclwatch::testing {
namespace {

using Rank = MpiWorld::Rank;

constexpr int kTask = 1, kResult = 2, kStop = 3;

std::uint64_t SizeOf(int number) {
  constexpr std::uint64_t sizes[] = {64, 2'000, 16'384, 1 << 20};
  return sizes[number % 4];
}

std::string TextOf(const diagnosis::Finding& finding) {
  std::string text =
      std::string(Name(finding.certainty)) + " " + std::string(Name(finding.kind)) + ": " + finding.summary;
  for (const std::string& line : finding.evidence) text += "\n  " + line;
  return text;
}

void ExpectNothing(const MpiWorld::Program& program) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    MpiWorld world(3 + static_cast<int>(seed % 3), seed);
    int wrong = 0, cuts = 0;
    const bool ended = world.Run(program, 0.2, [&](const diagnosis::Snapshot& snapshot) {
      ++cuts;
      if (wrong > 0) return;
      for (const diagnosis::Finding& finding : diagnosis::Diagnose(snapshot).findings) {
        ADD_FAILURE() << "seed " << seed << ", cut " << cuts << ": " << TextOf(finding);
        ++wrong;
      }
    });
    EXPECT_TRUE(ended) << "the program itself hangs with seed " << seed;
    EXPECT_GT(cuts, 0);
    if (wrong > 0 || !ended) return;
  }
}

Task Pipeline(Rank& self) {
  for (int i = 0; i < 12; ++i) {
    if (self.rank() > 0) co_await self.Recv(self.rank() - 1, i % 3, SizeOf(i));
    co_await self.Compute();
    if (self.rank() + 1 < self.size()) co_await self.Send(self.rank() + 1, i % 3, SizeOf(i), i % 5 == 0);
  }
}

// Both neighbours may be one rank, and the tags are the same: the order alone tells the messages apart.
Task Halo(Rank& self) {
  const int left = (self.rank() + self.size() - 1) % self.size(), right = (self.rank() + 1) % self.size();
  for (int i = 0; i < 8; ++i) {
    Slots requests(4);
    co_await self.Irecv(left, 7, SizeOf(i), &requests[0]);
    co_await self.Irecv(right, 7, SizeOf(i), &requests[1]);
    co_await self.Isend(right, 7, SizeOf(i), &requests[2]);
    co_await self.Isend(left, 7, SizeOf(i), &requests[3]);
    co_await self.Compute();
    co_await self.Waitall(requests);
    if (i % 3 == 2) co_await self.Barrier();
  }
}

Task RingOfSendrecv(Rank& self) {
  for (int i = 0; i < 10; ++i) {
    co_await self.Compute();
    co_await self.Sendrecv((self.rank() + 1) % self.size(), (self.rank() + self.size() - 1) % self.size(), 4,
                           SizeOf(i));
  }
}

Task Master(Rank& self) {
  int left = 15, busy = 0;
  for (int worker = 1; worker < self.size(); ++worker, ++busy, --left)
    co_await self.Send(worker, kTask, SizeOf(left), left % 4 == 0);
  while (busy > 0) {
    MpiStatus status;
    if (self.Chance(0.3)) co_await self.Probe(kAny, kResult, &status);
    co_await self.Recv(status.source, kAny, 1 << 20, &status);
    if (self.Chance(0.2)) co_await self.Compute();
    const bool more = left > 0;
    co_await self.Send(status.source, more ? kTask : kStop, SizeOf(left), left % 3 == 0);
    if (more) --left;
    if (!more) --busy;
  }
}

Task Worker(Rank& self) {
  for (;;) {
    MpiStatus status;
    if (self.Chance(0.5)) co_await self.Probe(0, kAny, &status);
    co_await self.Recv(0, kAny, 1 << 20, &status);
    if (status.tag == kStop) break;
    co_await self.Compute();
    co_await self.Send(0, kResult, SizeOf(self.Draw(4)), self.Chance(0.3));
  }
}

Task MasterAndWorkers(Rank& self) {
  if (self.rank() == 0)
    co_await Master(self);
  else
    co_await Worker(self);
  co_await self.Barrier();
}

// Rank 0 has one receive open for each of the others and takes what comes first; each waits for its answer.
Task AnyOfSeveral(Rank& self) {
  constexpr int kRounds = 6;
  if (self.rank() != 0) {
    for (int i = 0; i < kRounds; ++i) {
      co_await self.Compute();
      co_await self.Send(0, kResult, SizeOf(i), i % 2 == 0);
      co_await self.Recv(0, kTask, 1 << 20);
    }
    co_return;
  }
  Slots requests(static_cast<std::size_t>(self.size()) - 1);
  std::vector<int> left(requests.size(), kRounds);
  for (std::size_t i = 0; i < requests.size(); ++i)
    co_await self.Irecv(static_cast<int>(i) + 1, kResult, 1 << 20, &requests[i]);
  while (!requests.empty()) {
    std::size_t which = 0;
    MpiStatus status;
    co_await self.Waitany(requests, &which, &status);
    co_await self.Send(status.source, kTask, SizeOf(self.Draw(4)));
    if (--left[static_cast<std::size_t>(status.source) - 1] > 0) {
      co_await self.Irecv(status.source, kResult, 1 << 20, &requests[which]);
    } else {
      requests.erase(requests.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
}

// The wildcard receive was called first and got another rank's message: what it leaves is for the receive from one.
Task WildcardBesideOne(Rank& self) {
  for (int i = 0; i < 6; ++i) {
    if (self.rank() == 0) {
      std::uint64_t of_wildcard = 0, of_one = 0;
      co_await self.Irecv(kAny, 5, 1 << 20, &of_wildcard);
      co_await self.Irecv(1, 5, 1 << 20, &of_one);
      const Slots first(1, of_one), second(1, of_wildcard);
      co_await self.Waitall(first);
      co_await self.Send(1, 6, SizeOf(i));
      co_await self.Waitall(second);
    } else if (self.rank() == 1) {
      co_await self.Recv(2, 4, 64);
      co_await self.Send(0, 5, SizeOf(i), i % 2 == 0);
      co_await self.Recv(0, 6, 1 << 20);
    } else if (self.rank() == 2) {
      co_await self.Send(0, 5, SizeOf(i), true);
      co_await self.Send(1, 4, 64);
    }
    co_await self.Barrier();
  }
}

// The receives of different tags and sizes end in another order than they were posted in.
Task OutOfOrder(Rank& self) {
  const int next = (self.rank() + 1) % self.size(), before = (self.rank() + self.size() - 1) % self.size();
  for (int i = 0; i < 6; ++i) {
    Slots receives(4), sends(4);
    for (int m = 0; m < 4; ++m) co_await self.Irecv(before, m / 2, SizeOf(m), &receives[static_cast<std::size_t>(m)]);
    for (int m = 0; m < 4; ++m) co_await self.Isend(next, m / 2, SizeOf(m), &sends[static_cast<std::size_t>(m)]);
    for (int m = 3; m >= 0; --m) {
      const Slots one(1, receives[static_cast<std::size_t>(m)]);
      co_await self.Waitall(one);
    }
    co_await self.Waitall(sends);
  }
}

// Who sends to whom only the sender knows (Hoefler, Siebert, Lumsdaine: NBX).
Task SparseExchange(Rank& self) {
  for (int round = 0; round < 3; ++round) {
    Slots sends;
    for (int other = 0; other < self.size(); ++other) {
      if (other == self.rank() || self.Chance(0.4)) continue;
      sends.push_back(0);
      co_await self.Isend(other, round, SizeOf(other), &sends.back(), true);
    }
    Slots barrier;
    for (bool over = false; !over;) {
      MpiStatus status;
      bool found = false;
      co_await self.Iprobe(kAny, round, &found, &status);
      if (found) co_await self.Recv(status.source, status.tag, 1 << 20);
      if (barrier.empty()) {
        bool sent = sends.empty();
        if (!sent) co_await self.Testall(sends, &sent);
        if (!sent) continue;
        barrier.push_back(0);
        co_await self.Ibarrier(&barrier.back());
      } else {
        co_await self.Testall(barrier, &over);
      }
    }
  }
}

// Rank 0 goes on polling its barrier, and only what it does meanwhile lets the others come to theirs.
Task HelpsWhilePolling(Rank& self) {
  for (int round = 0; round < 5; ++round) {
    Slots barrier(1);
    if (self.rank() != 0) {
      co_await self.Recv(0, 1, 1 << 20);
      co_await self.Ibarrier(&barrier[0]);
      co_await self.Waitall(barrier);
      continue;
    }
    co_await self.Ibarrier(&barrier[0]);
    bool over = false;
    for (int reported = 1; !over;) {
      co_await self.Testall(barrier, &over);
      if (reported < self.size()) co_await self.Send(reported++, 1, SizeOf(round));
    }
  }
}

// A barrier or a message: the message is there, and the barrier never comes before it was taken.
Task BarrierOrMessage(Rank& self) {
  for (int round = 0; round < 5; ++round) {
    if (self.rank() != 0) {
      co_await self.Send(0, 1, SizeOf(round));
      co_await self.Recv(0, 2, SizeOf(round));
      Slots barrier(1);
      co_await self.Ibarrier(&barrier[0]);
      co_await self.Waitall(barrier);
      continue;
    }
    Slots requests(static_cast<std::size_t>(self.size()));
    co_await self.Ibarrier(&requests[0]);
    for (int other = 1; other < self.size(); ++other)
      co_await self.Irecv(other, 1, 1 << 20, &requests[static_cast<std::size_t>(other)]);
    while (!requests.empty()) {
      std::size_t which = 0;
      MpiStatus status;
      co_await self.Waitany(requests, &which, &status);
      if (status.source != kAny) co_await self.Send(status.source, 2, SizeOf(round));
      requests.erase(requests.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
}

// A message that fits a buffer is sent long before it is waited for, and received late.
Task WaitedForLate(Rank& self) {
  for (int round = 0; round < 6; ++round) {
    if (self.rank() > 1) {
      co_await self.Barrier();
      continue;
    }
    const int other = 1 - self.rank();
    if (self.rank() == 0) {
      Slots sent(1);
      co_await self.Isend(other, 1, 16'384, &sent[0]);
      for (int i = 0; i < 12; ++i) co_await self.Compute();
      if (self.eager() < 16'384) co_await self.Send(other, 2, 64);
      co_await self.Waitall(sent);
      if (self.eager() >= 16'384) co_await self.Send(other, 2, 64);
    } else {
      co_await self.Recv(other, 2, 64);
      co_await self.Recv(other, 1, 16'384);
    }
    co_await self.Barrier();
  }
}

// Many messages to the left of a rank that sends one to its right seldom: the rings lose those.
Task SeldomAndOften(Rank& self) {
  if (self.rank() > 1) {
    for (int i = 0; i < 4; ++i) {
      for (int pause = 0; pause < 20; ++pause) co_await self.Compute();
      co_await self.Recv(0, 9, 64);
      co_await self.Send(0, 10, 64);
    }
    co_return;
  }
  for (int i = 0; i < 4; ++i) {
    for (int other = 2; self.rank() == 0 && other < self.size(); ++other) co_await self.Send(other, 9, 64);
    for (int often = 0; often < 20; ++often) {
      if (self.rank() == 0)
        co_await self.Send(1, often % 2, SizeOf(often));
      else
        co_await self.Recv(0, often % 2, SizeOf(often));
    }
    for (int other = 2; self.rank() == 0 && other < self.size(); ++other) co_await self.Recv(other, 10, 64);
  }
}

Task RootedCollectives(Rank& self) {
  for (int i = 0; i < 8; ++i) {
    co_await self.Compute();
    co_await self.Bcast(i % self.size());
    co_await self.Reduce((i + 1) % self.size());
    const int peer = self.rank() ^ 1;
    if (peer >= self.size()) continue;
    if (self.rank() < peer)
      co_await self.Send(peer, i, SizeOf(i), true);
    else
      co_await self.Recv(peer, i, SizeOf(i));
  }
}

// MPI would let a rank wait in a broadcast for all others; none does, where the data are there.
Task LeavesBroadcastEarly(Rank& self) {
  for (int i = 0; i < 8; ++i) {
    if (self.rank() == 2) co_await self.Recv(1, 3, SizeOf(i));
    co_await self.Bcast(0);
    if (self.rank() == 1) co_await self.Send(2, 3, SizeOf(i));
    co_await self.Barrier();
  }
}

TEST(MpiHealthy, Pipeline) { ExpectNothing(Pipeline); }
TEST(MpiHealthy, Halo) { ExpectNothing(Halo); }
TEST(MpiHealthy, RingOfSendrecv) { ExpectNothing(RingOfSendrecv); }
TEST(MpiHealthy, MasterAndWorkers) { ExpectNothing(MasterAndWorkers); }
TEST(MpiHealthy, AnyOfSeveral) { ExpectNothing(AnyOfSeveral); }
TEST(MpiHealthy, WildcardBesideOne) { ExpectNothing(WildcardBesideOne); }
TEST(MpiHealthy, OutOfOrder) { ExpectNothing(OutOfOrder); }
TEST(MpiHealthy, SparseExchange) { ExpectNothing(SparseExchange); }
TEST(MpiHealthy, HelpsWhilePolling) { ExpectNothing(HelpsWhilePolling); }
TEST(MpiHealthy, BarrierOrMessage) { ExpectNothing(BarrierOrMessage); }
TEST(MpiHealthy, WaitedForLate) { ExpectNothing(WaitedForLate); }
TEST(MpiHealthy, SeldomAndOften) { ExpectNothing(SeldomAndOften); }
TEST(MpiHealthy, RootedCollectives) { ExpectNothing(RootedCollectives); }
TEST(MpiHealthy, LeavesBroadcastEarly) { ExpectNothing(LeavesBroadcastEarly); }

}  // namespace
}  // namespace ncclwatch::testing
