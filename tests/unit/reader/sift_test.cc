// Images that keep a part of the ring, and the rest read after all.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/diagnose.h"
#include "core/reader/box.h"
#include "core/reader/left_out.h"
#include "core/reader/sift.h"
#include "core/report/render.h"
#include "core/view/from_boxes.h"
#include "tests/unit/support/job_builder.h"

namespace ncclwatch::testing {
namespace {

namespace fs = std::filesystem;
using reader::BoxImage;
using reader::Call;

class SiftTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ncclwatch-sift-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string Path(int rank) const { return directory_ + "/" + std::to_string(rank) + ".box"; }
  BoxImage Whole(int rank) const { return std::get<BoxImage>(reader::ReadBox(Path(rank))); }
  BoxImage Sifted(int rank, std::uint64_t newest = 4) const {
    return std::get<BoxImage>(reader::ReadBox(Path(rank), newest));
  }
  void Write(const Job& job) const {
    const diagnosis::Snapshot snapshot = job.Snapshot();
    for (std::size_t i = 0; i < snapshot.boxes.size(); ++i) WriteBox(snapshot.boxes[i], Path(static_cast<int>(i)));
  }

  std::string directory_;
};

Job Routine(int calls) {
  Job job(2);
  for (int i = 0; i < calls; ++i) job.Done({0, 1}, Job::kWorld, AllReduce(100 + static_cast<std::uint64_t>(i)));
  return job;
}

std::vector<std::uint64_t> SlotsOf(const std::vector<Call>& calls) {
  std::vector<std::uint64_t> slots;
  for (const Call& call : calls) slots.push_back(call.slot);
  return slots;
}

TEST_F(SiftTest, KeepsTheNewestAndWhatIsNotRoutine) {
  Job job = Routine(20);
  job.Enter(0, Job::kWorld, AllReduce());  // inside
  for (int i = 0; i < 20; ++i) job.Other(0, Function::ncclCommGetAsyncError, Job::kWorld);
  Write(job);
  const BoxImage whole = Whole(0), sifted = Sifted(0);
  EXPECT_EQ(sifted.calls.size() + sifted.left_out, whole.calls.size());
  EXPECT_EQ(sifted.first_slot, whole.first_slot);
  EXPECT_EQ(sifted.torn, whole.torn);
  const auto inside = [](const Call& call) { return call.returned_ns == 0; };
  EXPECT_EQ(std::count_if(sifted.calls.begin(), sifted.calls.end(), inside), 1);
  EXPECT_EQ(std::count_if(whole.calls.begin(), whole.calls.end(), inside), 1);
  EXPECT_EQ(sifted.calls.back().slot, whole.calls.back().slot);
}

TEST_F(SiftTest, LaunchesThatTheGpuHasNotFinishedAreKept) {
  Job job = Routine(5);
  for (int i = 0; i < 30; ++i) job.Call({0, 1}, Job::kWorld, AllReduce());
  Write(job);
  const BoxImage sifted = Sifted(0);
  EXPECT_EQ(std::count_if(sifted.calls.begin(), sifted.calls.end(),
                          [](const Call& call) { return functions::IsCollective(call.function); }),
            30);
}

TEST_F(SiftTest, AMessageOfAnotherSizeIsKept) {
  Job job(2);
  for (int i = 0; i < 40; ++i) job.Message(0, Job::kWorld, Function::ncclSend, 1, i == 20 ? 2048 : 1024);
  job.Finish({0}, Job::kWorld);
  Write(job);
  std::vector<std::uint64_t> positions;
  for (const Call& call : Sifted(0).calls)
    if (call.function == Function::ncclSend) positions.push_back(call.position);
  EXPECT_EQ(positions, (std::vector<std::uint64_t>{0, 20, 21, 36, 37, 38, 39}));
}

TEST_F(SiftTest, MoreSizesThanCanBeKeptAreReportedOf) {
  Job job(2);
  const int messages = static_cast<int>(reader::kMostSizes) + 100;
  for (int i = 0; i < messages; ++i)
    job.Message(0, Job::kWorld, Function::ncclSend, 1, 1000 + static_cast<std::uint64_t>(i));
  job.Finish({0}, Job::kWorld);
  WriteBox(job.Snapshot().boxes[0], Path(0), 1024);
  const BoxImage sifted = Sifted(0);
  EXPECT_LT(sifted.sizes_until, sifted.head);
  EXPECT_LE(sifted.calls.size(), reader::kMostSizes + 8);
}

TEST_F(SiftTest, EachCollectiveLeftOutIsFoundByItsPosition) {
  const Job job = Routine(100);
  Write(job);
  const BoxImage whole = Whole(0), sifted = Sifted(0);
  const reader::Communicator& comm = sifted.communicators.at(0);
  ASSERT_GT(comm.left_out.end, comm.left_out.first + 90);
  for (std::uint64_t position = comm.left_out.first; position < comm.left_out.end; ++position) {
    const std::optional<Call> call = reader::ReadCollective(sifted, comm, position);
    ASSERT_TRUE(call) << position;
    EXPECT_EQ(call->count, 100 + position);
  }
  EXPECT_FALSE(reader::ReadCollective(sifted, comm, comm.left_out.end));
}

TEST_F(SiftTest, PutBackItIsTheWholeImage) {
  Write(Routine(50));
  BoxImage sifted = Sifted(0);
  ASSERT_GT(sifted.left_out, 40u);
  reader::PutBack(&sifted);
  EXPECT_EQ(sifted.left_out, 0u);
  EXPECT_EQ(SlotsOf(sifted.calls), SlotsOf(Whole(0).calls));
  EXPECT_EQ(sifted.first_slot, Whole(0).first_slot);
}

// Also after a verdict's instant was gone back to, behind all of the newest calls.
TEST_F(SiftTest, PutBackDoesNotDependOnTheNewest) {
  Write(Routine(50));
  BoxImage sifted = Sifted(0);
  sifted.calls.clear();
  EXPECT_EQ(reader::ReadLeftOut(sifted).size(), sifted.left_out);
}

TEST_F(SiftTest, AFileThatIsGoneOrAnotherOnesIsALostPast) {
  Write(Routine(50));
  for (const bool gone : {false, true}) {
    BoxImage sifted = Sifted(0);
    if (gone)
      fs::remove(Path(0));
    else
      fs::copy_file(Path(1), Path(0), fs::copy_options::overwrite_existing);
    EXPECT_TRUE(reader::ReadLeftOut(sifted).empty());
    EXPECT_FALSE(reader::ReadCollective(sifted, sifted.communicators.at(0), 3));
    reader::PutBack(&sifted);
    EXPECT_GT(sifted.first_slot, 0u);
    Write(Routine(50));
  }
}

TEST_F(SiftTest, AMismatchLongAgoIsFoundInSiftedImages) {
  Job job(4);
  for (int i = 0; i < 60; ++i) {
    job.Done(i == 7 ? Range(0, 3) : Range(0, 4), Job::kWorld, AllReduce());
    if (i == 7) job.Done({3}, Job::kWorld, AllReduce(4097));
  }
  Write(job);
  std::vector<BoxImage> boxes, whole;
  for (int rank = 0; rank < 4; ++rank) {
    boxes.push_back(Sifted(rank));
    whole.push_back(Whole(rank));
  }
  const auto verdict = diagnosis::Diagnose(diagnosis::FromBoxes(boxes));
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.findings[0].kind, diagnosis::Kind::kArgumentMismatch);
  EXPECT_EQ(verdict.findings[0].position, 7u);
  EXPECT_EQ(verdict.findings[0].culprits, std::vector<int>{3});
  EXPECT_EQ(diagnosis::ToJson(verdict), diagnosis::ToJson(diagnosis::Diagnose(diagnosis::FromBoxes(whole))));
  // The past cannot be read any more: what is left proves nothing.
  for (int rank = 0; rank < 4; ++rank) fs::remove(Path(rank));
  for (const diagnosis::Finding& finding : diagnosis::Diagnose(diagnosis::FromBoxes(boxes)).findings)
    EXPECT_LT(finding.certainty, diagnosis::Certainty::kCertain);
}

TEST_F(SiftTest, ManyFilesComeInTheirOrder) {
  std::vector<std::string> files;
  Job job(40);
  for (int i = 0; i < 40; ++i) job.Done(Range(0, 40), Job::kWorld, AllReduce());
  Write(job);
  for (int rank = 0; rank < 40; ++rank) files.push_back(Path(rank));
  files.insert(files.begin() + 7, directory_ + "/none.box");
  std::vector<BoxImage> boxes;
  std::vector<reader::Failure> failures;
  std::size_t done = 0;
  reader::ReadBoxes(
      files, reader::Calls::kForVerdict, [&](std::size_t count) { done = count; }, &boxes, &failures);
  ASSERT_EQ(boxes.size(), 40u);
  for (int rank = 0; rank < 40; ++rank) EXPECT_EQ(boxes[static_cast<std::size_t>(rank)].rank, rank);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].path, files[7]);
  EXPECT_EQ(done, files.size());
}

}  // namespace
}  // namespace ncclwatch::testing
