// argument_mismatch of collectives with an amount for each pair of ranks: v- and w-variants of MPI.
#include <gtest/gtest.h>

#include "tests/unit/diagnosis/verdicts.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Kind;
using Parts = std::vector<format::Part>;

void ExpectSilent(const MpiJob& job) {
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

void ExpectAmounts(const MpiJob& job, Certainty certainty, const std::vector<int>& culprits,
                   const std::string& part_of_summary) {
  const auto diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kArgumentMismatch, certainty, culprits);
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_NE(diagnosis.findings[0].summary.find(part_of_summary), std::string::npos) << diagnosis.findings[0].summary;
}

// The root is rank 0; what each sends, and what the root has room for.
MpiJob Gathered(const Parts& sent, const Parts& expected, std::uint32_t returned = 1) {
  const int ranks = static_cast<int>(sent.size());
  MpiJob job(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::uint64_t slot = job.Amounts(rank, Function::MPI_Gatherv, {sent[static_cast<std::size_t>(rank)]},
                                           rank == 0 ? expected : Parts{}, 0);
    if (returned != 0) job.Return(rank, slot);
  }
  return job;
}

using Matrix = std::vector<Parts>;

MpiJob ExchangedAmounts(const Matrix& sent, const Matrix& expected, Function function = Function::MPI_Alltoallv) {
  const int ranks = static_cast<int>(sent.size());
  MpiJob job(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    job.Return(rank, job.Amounts(rank, function, sent[at], expected[at]));
  }
  return job;
}

Matrix All(std::size_t ranks, const format::Part& part) { return Matrix(ranks, Parts(ranks, part)); }

TEST(MpiAmounts, EqualOnes) {
  ExpectSilent(Gathered({Ints(3), Ints(0), Ints(5)}, {Ints(3), Floats(0), Ints(5)}));
  ExpectSilent(ExchangedAmounts(All(4, Ints(2)), All(4, Ints(2))));
}

TEST(MpiAmounts, PersistentOnesMayBeStartedInAnyOrder) {
  MpiJob job(2);
  for (const int rank : {0, 1})
    for (const std::uint32_t number : {rank == 0 ? 1u : 2u, rank == 0 ? 2u : 1u})
      job.StartAmounts(rank, Function::MPI_Alltoallv_init, number, Parts(2, Ints(number)), Parts(2, Ints(number)));
  ExpectSilent(job);
}

TEST(MpiAmounts, ThoseOfOnePersistentOneAreCompared) {
  MpiJob job(2);
  for (const int rank : {0, 1})
    job.StartAmounts(rank, Function::MPI_Alltoallv_init, 1, Parts(2, Ints(2)), Parts(2, Ints(rank == 0 ? 2 : 3)));
  EXPECT_EQ(job.Diagnose().findings.at(0).kind, Kind::kArgumentMismatch);
}

// Others may disagree with one of them too.
TEST(MpiAmounts, APairIsCertainOnlyOnceAllHaveCome) {
  Matrix sent = All(4, Ints(2));
  sent[1][2] = Ints(3);
  MpiJob job(4);
  for (const int rank : {1, 2})
    job.Amounts(rank, Function::MPI_Alltoallv, sent[static_cast<std::size_t>(rank)], Parts(4, Ints(2)));
  ExpectAmounts(job, Certainty::kLikely, {1, 2}, "Rank 1 sends 12 bytes");
  for (const int rank : {0, 3})
    job.Amounts(rank, Function::MPI_Alltoallv, sent[static_cast<std::size_t>(rank)], Parts(4, Ints(2)));
  ExpectAmounts(job, Certainty::kCertain, {1, 2}, "Rank 1 sends 12 bytes");
}

TEST(MpiAmounts, OneOfAGatherNamesBothEnds) {
  ExpectAmounts(Gathered({Ints(8), Ints(8), Ints(5), Ints(8)}, {Ints(8), Ints(8), Ints(8), Ints(8)}),
                Certainty::kCertain, {0, 2},
                "Rank 2 sends 20 bytes (5 MPI_INT) to rank 0, which expects 32 bytes (8 MPI_INT)");
}

TEST(MpiAmounts, FoundInsideTheCall) {
  ExpectAmounts(Gathered({Ints(8), Ints(8), Ints(9)}, {Ints(8), Ints(8), Ints(8)}, 0), Certainty::kCertain, {0, 2},
                "36 bytes");
}

TEST(MpiAmounts, RootAgainstAllOthers) {
  ExpectAmounts(Gathered({Ints(8), Ints(8), Ints(8), Ints(8)}, {Ints(8), Ints(7), Ints(7), Ints(7)}),
                Certainty::kCertain, {0}, "which expects 28 bytes");
}

TEST(MpiAmounts, TwoOfManyDoNotBlameTheRootAlone) {
  ExpectAmounts(Gathered({Ints(8), Ints(5), Ints(5), Ints(8), Ints(8), Ints(8)}, Parts(6, Ints(8))),
                Certainty::kCertain, {0, 1, 2}, "20 bytes");
}

TEST(MpiAmounts, RootAgainstItself) {
  ExpectAmounts(Gathered({Ints(3), Ints(8)}, {Ints(8), Ints(8)}), Certainty::kCertain, {0}, "itself");
}

TEST(MpiAmounts, Scatter) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank)
    job.Return(rank, job.Amounts(rank, Function::MPI_Iscatterv, rank == 1 ? Parts{Ints(4), Ints(4), Ints(1)} : Parts{},
                                 {Ints(4)}, 1));
  ExpectAmounts(job, Certainty::kCertain, {1, 2}, "Rank 1 sends 4 bytes (1 MPI_INT) to rank 2");
}

TEST(MpiAmounts, OnePairOfAnExchange) {
  Matrix sent = All(4, Ints(8));
  sent[2][1] = Ints(5);
  ExpectAmounts(ExchangedAmounts(sent, All(4, Ints(8))), Certainty::kCertain, {1, 2}, "Rank 2 sends 20 bytes");
}

TEST(MpiAmounts, OneRankAgainstSeveral) {
  Matrix sent = All(5, Ints(8));
  sent[3][0] = sent[3][1] = Ints(9);
  ExpectAmounts(ExchangedAmounts(sent, All(5, Ints(8))), Certainty::kCertain, {3}, "Rank 3 sends 36 bytes");
  Matrix expected = All(5, Ints(8));
  for (format::Part& part : expected[2]) part = Ints(7);
  expected[2][2] = Ints(8);
  ExpectAmounts(ExchangedAmounts(All(5, Ints(8)), expected), Certainty::kCertain, {2},
                "rank 2, which expects 28 bytes");
}

TEST(MpiAmounts, OtherTypesOfTheSameLength) {
  ExpectAmounts(Gathered({Ints(8), Floats(8)}, {Ints(8), Ints(8)}), Certainty::kCertain, {0, 1}, "8 MPI_FLOAT");
}

TEST(MpiAmounts, NamesOfOneTypeAreOnlyLikely) {
  format::Part bytes = Ints(8);
  bytes.what = 77;
  bytes.dtype = kMpiByte;
  bytes.element = 1;
  ExpectAmounts(Gathered({Ints(8), bytes}, {Ints(8), Ints(8)}), Certainty::kLikely, {0, 1}, "32 bytes");
  format::Part alias = Ints(8);
  alias.what = 78;
  alias.dtype = 83;  // MPI_INT32_T
  ExpectAmounts(Gathered({Ints(8), alias}, {Ints(8), Ints(8)}), Certainty::kLikely, {0, 1}, "32 bytes");
}

TEST(MpiAmounts, WhatIsNotKnownSaysNothing) {
  const format::Part unknown{};
  ExpectSilent(Gathered({unknown, Ints(8), unknown}, {Ints(8), unknown, Ints(8)}));
  format::Part packed = Ints(5);
  packed.dtype = kMpiPacked;
  ExpectSilent(Gathered({Ints(8), packed}, {Ints(8), Ints(8)}));
}

TEST(MpiAmounts, InPlaceOnOneSideSaysNothing) {
  MpiJob job(2);
  job.Return(0, job.Collective(0, Function::MPI_Alltoallv));
  job.Return(1, job.Amounts(1, Function::MPI_Alltoallv, {Ints(3), Ints(3)}, {Ints(4), Ints(3)}));
  ExpectSilent(job);
}

TEST(MpiAmounts, OverwrittenOnOneSideSaysNothing) {
  MpiJob job = Gathered({Ints(8), Ints(5)}, {Ints(8), Ints(8)});
  job.Box(1).parts.clear();
  ExpectSilent(job);
}

TEST(MpiAmounts, BehindAnotherMismatchNothingBelongsTogether) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank)
    job.Return(rank, job.Collective(rank, rank == 2 ? Function::MPI_Barrier : Function::MPI_Allreduce));
  for (int rank = 0; rank < 3; ++rank)
    job.Return(rank, job.Amounts(rank, Function::MPI_Gatherv, {Ints(rank == 1 ? 5 : 8)},
                                 rank == 0 ? Parts(3, Ints(8)) : Parts{}, 0));
  const auto diagnosis = job.Diagnose();
  ASSERT_EQ(diagnosis.findings.size(), 1u);
  EXPECT_EQ(diagnosis.findings[0].kind, Kind::kOrderMismatch);
}

TEST(MpiAmounts, SeveralThreadsAreOnlyLikely) {
  MpiJob job = Gathered({Ints(8), Ints(5)}, {Ints(8), Ints(8)});
  job.Entry(0, MpiJob::kWorld).color = 3;
  ExpectAmounts(job, Certainty::kLikely, {0, 1}, "20 bytes");
}

TEST(MpiAmounts, TheFirstOfSeveralIsReported) {
  MpiJob job = Gathered({Ints(8), Ints(5), Ints(8)}, {Ints(8), Ints(8), Ints(8)});
  for (int rank = 0; rank < 3; ++rank)
    job.Return(rank, job.Amounts(rank, Function::MPI_Gatherv, {Ints(rank == 2 ? 1 : 8)},
                                 rank == 0 ? Parts(3, Ints(8)) : Parts{}, 0));
  ExpectAmounts(job, Certainty::kCertain, {0, 1}, "collective 0");
}

// Also where all of a collective have the same amount: no MPI tells the names of one type apart.
TEST(MpiMismatch, NamesOfOneTypeAreOnlyLikely) {
  const auto with = [](std::uint8_t dtype, std::uint64_t bytes) {
    MpiJob job(3);
    for (const int rank : {0, 1, 2}) {
      reader::Call& call = job.At(rank, job.Collective(rank, Function::MPI_Reduce, 0));
      if (rank != 1) continue;
      call.dtype = dtype;
      call.bytes = bytes;
      call.signature = dtype;
      call.chain = job.Entry(rank, Job::kWorld).chain = format::Mix(call.chain, call.signature);
    }
    return job;
  };
  Expect(with(83, 4).Diagnose(), Kind::kArgumentMismatch, Certainty::kLikely, {1});  // MPI_INT32_T
  Expect(with(kMpiFloat, 4).Diagnose(), Kind::kArgumentMismatch, Certainty::kCertain, {1});
  Expect(with(84, 8).Diagnose(), Kind::kArgumentMismatch, Certainty::kCertain, {1});  // MPI_INT64_T
  EXPECT_TRUE(with(format::kNoType, 0).Diagnose().healthy());  // one that was freed: that is told, and nothing else
}

// ---- neighbours

using Edges = std::vector<std::pair<int, format::Part>>;

Parts InTwos(const Edges& edges) {
  Parts parts;
  for (const auto& [rank, amount] : edges) {
    parts.push_back({static_cast<std::uint32_t>(rank), format::kNoType, 0, 0});
    parts.push_back(amount);
  }
  return parts;
}

void Neighbours(MpiJob* job, int rank, const Edges& sends, const Edges& receives) {
  job->Return(rank, job->Amounts(rank, Function::MPI_Neighbor_alltoallv, InTwos(sends), InTwos(receives)));
}

// On a ring each sends one to the left and two to the right, but for one.
MpiJob Ring(int ranks, int odd, std::uint64_t to_left, std::uint64_t to_right) {
  MpiJob job(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    Neighbours(&job, rank, {{left, Ints(rank == odd ? to_left : 1)}, {right, Ints(rank == odd ? to_right : 2)}},
               {{left, Ints(2)}, {right, Ints(1)}});
  }
  return job;
}

TEST(MpiAmounts, OfNeighbours) {
  ExpectSilent(Ring(5, 3, 1, 2));
  ExpectAmounts(Ring(5, 3, 2, 1), Certainty::kCertain, {3}, "Rank 3 sends 8 bytes (2 MPI_INT) to rank 2");
  ExpectAmounts(Ring(5, 3, 1, 3), Certainty::kCertain, {3, 4}, "Rank 3 sends 12 bytes (3 MPI_INT) to rank 4");
}

// Left and right are one rank: which block is which does not matter, but that each is expected.
TEST(MpiAmounts, NeighboursInTwoWays) {
  ExpectSilent(Ring(2, 1, 2, 1));
  ExpectAmounts(Ring(2, 1, 2, 2), Certainty::kCertain, {0, 1}, "Rank 1 sends 8 bytes (2 MPI_INT) to rank 0");
  ExpectSilent(Ring(1, 0, 2, 1));
}

TEST(MpiAmounts, NeighboursThatDoNotAgreeWhoTheyAre) {
  MpiJob job(3);
  Neighbours(&job, 0, {{1, Ints(1)}}, {});
  Neighbours(&job, 1, {}, {{0, Ints(1)}});
  Neighbours(&job, 2, {}, {{1, Ints(3)}});
  ExpectAmounts(job, Certainty::kCertain, {1, 2}, "Rank 2 expects 12 bytes (3 MPI_INT) from rank 1");
  MpiJob twice(2);
  Neighbours(&twice, 0, {{1, Ints(1)}, {1, Ints(2)}}, {});
  Neighbours(&twice, 1, {}, {{0, Ints(1)}});
  ExpectAmounts(twice, Certainty::kCertain, {0, 1}, "Rank 0 sends 8 bytes (2 MPI_INT) to rank 1");
}

// Rank 2 starts another one, or one that it has made with another count.
diagnosis::Diagnosis Started(std::int32_t number, std::uint64_t count) {
  MpiJob job(4);
  for (int rank = 0; rank < 4; ++rank) {
    Spec spec;
    spec.function = Function::MPI_Allreduce_init;
    spec.dtype = kMpiInt;
    spec.count = rank == 2 ? count : 8;
    spec.signature = static_cast<std::uint32_t>(rank == 2 ? 100 * number + static_cast<int>(count) : 108);
    const std::uint64_t slot = job.Enter(rank, Job::kWorld, spec);
    job.At(rank, slot).flags |= format::kRequest | format::kPersisting;
    job.At(rank, slot).tag = rank == 2 ? number : 1;
    job.Return(rank, slot);
  }
  return job.Diagnose();
}

TEST(MpiAmounts, StartsOfOnePersistentCollectiveBelongTogether) {
  EXPECT_TRUE(Started(1, 8).healthy());
  EXPECT_TRUE(Started(2, 7).healthy());
  Expect(Started(1, 7), diagnosis::Kind::kArgumentMismatch, diagnosis::Certainty::kCertain, {2});
}

}  // namespace
}  // namespace ncclwatch::testing
