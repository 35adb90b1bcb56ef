// argument_mismatch of calls that make communicators of MPI.
#include <gtest/gtest.h>

#include "ncclwatch/format/arguments.h"
#include "tests/unit/diagnosis/verdicts.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Kind;
using format::Argument;
using Arguments = std::vector<std::pair<Argument, int>>;

struct Said {
  Arguments arguments = {};
  std::vector<int> group = {};
  std::uint64_t use = 0;      // of a group, or of a pair of leaders
  std::uint64_t leaders = 0;  // which pair
  bool hashed = true;
};

// Inside the call.
std::uint64_t Make(MpiJob* job, int rank, Function function, const Said& said, bool tells = true) {
  const std::uint64_t slot = job->Create(rank, function);
  reader::Call& call = job->At(rank, slot);
  std::uint64_t hash = 0;
  std::vector<format::Part> arguments, members;
  std::uint16_t index = 0;
  for (const auto& [argument, value] : said.arguments) {
    hash = format::Mix(hash, static_cast<std::uint64_t>(value) + 7 * static_cast<std::uint64_t>(argument));
    arguments.push_back({0, static_cast<std::uint16_t>(argument), index++, static_cast<std::uint64_t>(value)});
  }
  if (said.leaders != 0) arguments.push_back({0, static_cast<std::uint16_t>(Argument::kLeaders), 0, said.leaders});
  for (const int member : said.group) members.push_back({static_cast<std::uint32_t>(member), format::kNoType, 0, 0});
  if (!said.arguments.empty() && said.hashed) call.signature = static_cast<std::uint32_t>(hash) | 1;
  call.bytes = said.use;
  if (tells) {
    call.flags |= format::kHasParts;
    job->Box(rank).parts.push_back({call, arguments, members});
  }
  return slot;
}

void ExpectAlike(const MpiJob& job) {
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

void ExpectArguments(const MpiJob& job, Certainty certainty, const std::vector<int>& culprits,
                     const std::string& part_of_summary) {
  const auto diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kArgumentMismatch, certainty, culprits);
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_NE(diagnosis.findings[0].summary.find(part_of_summary), std::string::npos) << diagnosis.findings[0].summary;
}

Said Grid(int first, int second) {
  return {{{Argument::kDimensions, 2}, {Argument::kDims, first}, {Argument::kDims, second}, {Argument::kReorder, 0}}};
}

TEST(MpiCreationArguments, OneGrid) {
  MpiJob job(4);
  for (int rank = 0; rank < 4; ++rank) job.Return(rank, Make(&job, rank, Function::MPI_Cart_create, Grid(2, 2)));
  ExpectAlike(job);
}

TEST(MpiCreationArguments, AnotherGridOnOneRank) {
  MpiJob job(4);
  for (int rank = 0; rank < 4; ++rank)
    job.Return(rank, Make(&job, rank, Function::MPI_Cart_create, rank == 2 ? Grid(4, 1) : Grid(2, 2)));
  ExpectArguments(job, Certainty::kCertain, {2}, "with dims (4, 1) instead of (2, 2) as on ranks 0-1,3");
}

TEST(MpiCreationArguments, OfTwoEitherMayBeWrong) {
  MpiJob job(2);
  for (int rank = 0; rank < 2; ++rank) Make(&job, rank, Function::MPI_Cart_create, Grid(2, 1 + rank));
  ExpectArguments(job, Certainty::kCertain, {0, 1}, "either side may be wrong");
}

TEST(MpiCreationArguments, WhatIsLostIsOnlyLikely) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank)
    Make(&job, rank, Function::MPI_Cart_create, rank == 2 ? Grid(4, 1) : Grid(2, 2), false);
  ExpectArguments(job, Certainty::kLikely, {2}, "other arguments");
}

TEST(MpiCreationArguments, NotForAllMPIsOfOneMeaning) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank)
    job.Return(rank, Make(&job, rank, Function::MPI_Dist_graph_create_adjacent, {{{Argument::kReorder, rank == 1}}}));
  ExpectArguments(job, Certainty::kLikely, {1}, "reorder 1 instead of 0");
}

TEST(MpiCreationArguments, WhoTakesNoPartSaysNothing) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank)
    job.Return(rank,
               Make(&job, rank, Function::MPI_Comm_split_type, rank == 1 ? Said{} : Said{{{Argument::kSplitType, 1}}}));
  ExpectAlike(job);
}

TEST(MpiCreationArguments, AnotherCallIsAnotherOrder) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank)
    Make(&job, rank, rank == 1 ? Function::MPI_Graph_create : Function::MPI_Cart_create, Grid(rank, 1));
  Expect(job.Diagnose(), Kind::kOrderMismatch, Certainty::kCertain, {1});
}

MpiJob Groups(const std::vector<std::vector<int>>& groups) {
  MpiJob job(static_cast<int>(groups.size()));
  for (int rank = 0; rank < static_cast<int>(groups.size()); ++rank)
    job.Return(rank, Make(&job, rank, Function::MPI_Comm_create, {.group = groups[static_cast<std::size_t>(rank)]}));
  return job;
}

TEST(MpiCreationArguments, GroupsOfTheirOwn) {
  ExpectAlike(Groups({{0, 1}, {0, 1}, {3, 2}, {3, 2}}));
  ExpectAlike(Groups({{0, 1}, {0, 1}, {}, {}}));
  ExpectAlike(Groups({{0, 1}, {0, 1}, {0, 1}, {}}));
}

TEST(MpiCreationArguments, AnotherGroupThanItsOtherMembers) {
  ExpectArguments(Groups({{0, 1, 2}, {0, 1, 2}, {0, 2}, {}}), Certainty::kCertain, {2},
                  "the group (0, 2) instead of (0, 1, 2)");
  ExpectArguments(Groups({{0, 1, 2}, {0, 1, 2}, {}, {}}), Certainty::kCertain, {2}, "the group () instead of");
  ExpectArguments(Groups({{0, 1, 2}, {0, 1, 2}, {2, 1, 0}, {}}), Certainty::kCertain, {2}, "the group (2, 1, 0)");
}

std::uint64_t CreateGroup(MpiJob* job, int rank, const std::vector<int>& group, int tag, std::uint64_t use = 1) {
  return Make(job, rank, Function::MPI_Comm_create_group, {{{Argument::kTag, tag}}, group, use});
}

TEST(MpiCreationArguments, TagsOfAGroup) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank) CreateGroup(&job, rank, {0, 1, 2}, rank == 1 ? 5 : 4);
  ExpectArguments(job, Certainty::kCertain, {1}, "tag 5 instead of 4");
}

TEST(MpiCreationArguments, OneGroupAfterTheOther) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank) {
    job.Return(rank, CreateGroup(&job, rank, {0, 1, 2}, 5));
    job.Return(rank, CreateGroup(&job, rank, {0, 1, 2}, 6, 2));
    if (rank < 2) job.Return(rank, CreateGroup(&job, rank, {0, 1}, 7));
    if (rank > 0) CreateGroup(&job, rank, {2, 1}, 8);
  }
  ExpectAlike(job);
}

// Rank 1 has left it already, which others are still in.
TEST(MpiCreationArguments, WhoHasDoneItsPartMayGoOn) {
  MpiJob job(3);
  CreateGroup(&job, 0, {0, 1}, 5);
  job.Return(1, CreateGroup(&job, 1, {0, 1}, 5));
  CreateGroup(&job, 1, {0, 1, 2}, 5);
  ExpectAlike(job);
}

TEST(MpiCreationArguments, EachWaitsWithAnotherGroup) {
  MpiJob job(4);
  for (int rank = 0; rank < 4; ++rank)
    CreateGroup(&job, rank, rank == 2 ? std::vector{1, 2, 3} : std::vector{0, 1, 2, 3}, 5);
  ExpectArguments(job, Certainty::kCertain, {2}, "the group (1, 2, 3) instead of (0, 1, 2, 3)");
}

TEST(MpiCreationArguments, TagsOfTwoLeaders) {
  for (const int other : {4, 5}) {
    MpiJob job(2);
    for (int rank = 0; rank < 2; ++rank)
      Make(&job, rank, Function::MPI_Intercomm_create,
           {{{Argument::kTag, rank == 0 ? 4 : other}}, {}, 1, 0xabc, false});
    if (other == 4)
      ExpectAlike(job);
    else
      ExpectArguments(job, Certainty::kCertain, {0, 1}, "tag 5 instead of 4");
  }
}

}  // namespace
}  // namespace ncclwatch::testing
