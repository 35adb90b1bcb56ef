// What a node sends of its boxes says the same as the boxes.
#include "core/nodes/image_code.h"
#include "core/diagnose.h"
#include "core/report/render.h"

#include <gtest/gtest.h>

#include "core/nodes/messages.h"
#include "tests/unit/nodes/faults.h"

namespace ncclwatch::testing {
namespace {

using nodes::Reader;
using nodes::Writer;

reader::BoxImage ThereAndBack(const reader::BoxImage& image, std::size_t* bytes = nullptr) {
  Writer to;
  nodes::WriteImage(image, &to);
  if (bytes != nullptr) *bytes += to.size();
  Reader from(to.bytes());
  reader::BoxImage copy;
  EXPECT_TRUE(nodes::ReadImage(&from, &copy));
  EXPECT_TRUE(from.Done());
  return copy;
}

TEST(ImageCode, TellsEveryVerdict) {
  for (const Fault& fault : Faults()) {
    SCOPED_TRACE(fault.name);
    diagnosis::Snapshot snapshot = fault.make().Snapshot();
    const std::string before = diagnosis::ToJson(diagnosis::Diagnose(snapshot));
    for (reader::BoxImage& box : snapshot.boxes) box = ThereAndBack(box);
    EXPECT_EQ(diagnosis::ToJson(diagnosis::Diagnose(snapshot)), before);
  }
}

TEST(ImageCode, KeepsOddValues) {
  reader::BoxImage image;
  image.command = std::string(3000, 'x');
  image.state = format::ProcessState::kCrashing;
  image.rank = -1;
  image.last_words = {true, 3, 11, -5, "said"};
  image.communicators.emplace_back();
  image.communicators[0].state = format::CommunicatorState::kRevoked;
  image.communicators[0].flags = format::kCommRankUnknown;
  image.communicators[0].rank = UINT32_MAX;
  image.communicators[0].tickets = 100;
  for (std::size_t i = 0; i < format::kMarks; ++i) image.communicators[0].marks[i] = i * i;
  image.gpu_marks = format::GpuMarks::kBoth;
  for (std::size_t i = 0; i < format::kStarts; ++i) image.communicators[0].starts[i] = 41 - i;
  image.peers.push_back({1, 2, 3, UINT64_MAX, 0});
  image.call_sites.push_back({0x7f00, "/lib/a+0x3", 77, 0x7e00});
  reader::Call call;
  call.slot = 900;
  call.entered_ns = 5'000;
  call.returned_ns = 4'000;  // its clock was put back
  call.communicator = format::kNoCommunicator;
  call.chain = 0xfeed;
  call.root = -7;
  call.result = 3;
  image.calls = {call, call};
  image.calls[1].slot = 17;
  image.calls[1].returned_ns = 0;
  image.calls[1].result = format::kNoResult;
  image.calls[1].flags = format::kStartMarked;
  image.calls[1].start = 23;
  image.calls.push_back(image.calls[1]);  // two of a group share it
  const reader::BoxImage copy = ThereAndBack(image);
  EXPECT_EQ(copy.command.size(), 255u);
  EXPECT_EQ(copy.state, image.state);
  EXPECT_EQ(copy.rank, -1);
  EXPECT_EQ(copy.last_words.text, "said");
  EXPECT_EQ(copy.last_words.at_ns, -5);
  EXPECT_EQ(copy.communicators[0].marks, image.communicators[0].marks);
  EXPECT_EQ(copy.communicators[0].rank, UINT32_MAX);
  EXPECT_EQ(copy.peers[0].sends, UINT64_MAX);
  EXPECT_EQ(copy.call_sites[0].name, "/lib/a+0x3");
  EXPECT_EQ(copy.call_sites[0].native, 0x7e00u);
  EXPECT_EQ(copy.communicators[0].starts, image.communicators[0].starts);
  ASSERT_EQ(copy.calls.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(copy.calls[i].start, image.calls[i].start) << i;
  EXPECT_EQ(copy.calls[0].slot, 900u);
  EXPECT_EQ(copy.calls[0].returned_ns, 4'000);
  EXPECT_EQ(copy.calls[0].communicator, format::kNoCommunicator);
  EXPECT_EQ(copy.calls[0].chain, 0xfeedu);
  EXPECT_EQ(copy.calls[0].root, -7);
  EXPECT_EQ(copy.calls[1].slot, 17u);
  EXPECT_EQ(copy.calls[1].returned_ns, 0);
  EXPECT_EQ(copy.calls[1].result, format::kNoResult);
}

TEST(ImageCode, ACallOfATrainingLoopTakesFewBytes) {
  Job job(2);
  for (int i = 0; i < 1000; ++i) {
    job.Pass(0.001);
    job.Done({0, 1}, kWorld, AllReduce());
  }
  reader::BoxImage empty = job.Snapshot().boxes[0];
  const reader::BoxImage full = empty;
  empty.calls.clear();
  std::size_t with = 0, without = 0;
  EXPECT_EQ(ThereAndBack(full, &with).calls.size(), 1000u);
  ThereAndBack(empty, &without);
  EXPECT_LE((with - without) / 1000, 8u);
}

TEST(ImageCode, EveryCutIsRefused) {
  Writer to;
  nodes::WriteImage(Faults()[3].make().Snapshot().boxes[0], &to);
  for (std::size_t size = 0; size < to.size(); ++size) {
    Reader from(std::string_view(to.bytes()).substr(0, size));
    reader::BoxImage image;
    EXPECT_FALSE(nodes::ReadImage(&from, &image)) << size;
  }
}

TEST(KeepCalls, LeavesTheNewestAndAllOfOne) {
  Job job(2);
  const int other = job.Comm({0, 1});
  for (int i = 0; i < 10; ++i) job.Done({0, 1}, other, AllReduce());
  for (int i = 0; i < 10; ++i) job.Done({0, 1}, kWorld, AllGather());
  reader::BoxImage image = job.Snapshot().boxes[0];
  const std::uint64_t id = job.Entry(0, other).id;
  nodes::KeepCalls(100, 0, &image);
  EXPECT_EQ(image.calls.size(), 20u);
  EXPECT_EQ(image.first_slot, 0u);
  nodes::KeepCalls(3, id, &image);
  EXPECT_EQ(image.calls.size(), 13u);
  EXPECT_NE(image.first_slot, 0u);
}

TEST(Messages, AnAnswerFitsIntoWhatIsAllowed) {
  Job job(2);
  for (int i = 0; i < 2000; ++i) {
    job.Pass(0.001);
    job.Done({0, 1}, kWorld, AllReduce());
  }
  nodes::Fetch fetch{.number = 5, .newest_calls = UINT64_MAX, .communicator = 0, .most_bytes = 8000};
  const std::vector<std::string> bodies = nodes::Answer(fetch, job.Snapshot().boxes);
  ASSERT_EQ(bodies.size(), 1u);
  EXPECT_LE(bodies[0].size(), 8100u);
  nodes::Pieces pieces;
  bool damaged = false;
  const auto records = nodes::ReadRecords(pieces.Add(bodies[0], &damaged).value());
  ASSERT_TRUE(records);
  EXPECT_EQ(records->number, 5u);
  EXPECT_GT(records->boxes[0].calls.size(), 100u);
  EXPECT_EQ(records->boxes[0].calls.back().slot, 1999u);
}

TEST(Messages, LargeOnesGoInPieces) {
  std::string whole(2'500'000, 'a');
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<char>(i * 31 >> 3);
  const std::vector<std::string> bodies = nodes::InPieces(9, whole);
  ASSERT_EQ(bodies.size(), 3u);
  nodes::Pieces pieces;
  bool damaged = false;
  EXPECT_FALSE(pieces.Add(bodies[0], &damaged));
  EXPECT_FALSE(pieces.Add(bodies[2], &damaged));  // one is missing
  EXPECT_FALSE(damaged);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_FALSE(pieces.Add(bodies[i], &damaged));
  EXPECT_EQ(pieces.Add(bodies[2], &damaged), whole);
  EXPECT_FALSE(pieces.Add("\x01garbage that goes on", &damaged) && !damaged);
}

TEST(Messages, AWordIsReadAsWritten) {
  for (const Fault& fault : Faults()) {
    SCOPED_TRACE(fault.name);
    nodes::VerdictBroadcast word;
    word.revision = 3;
    word.verdicts = 1;
    word.job_minus_yours_ns = -12345;
    word.stands = word.announced = true;
    word.diagnosed_ns = 77;
    word.hub_host = "host0";
    word.diagnosis = fault.make().Diagnose();
    nodes::Pieces pieces;
    bool damaged = false;
    const auto copy = nodes::ReadWord(pieces.Add(nodes::Write(word).at(0), &damaged).value());
    ASSERT_TRUE(copy);
    EXPECT_EQ(diagnosis::ToJson(*copy->diagnosis), diagnosis::ToJson(*word.diagnosis));
    EXPECT_EQ(diagnosis::ToText(*copy->diagnosis), diagnosis::ToText(*word.diagnosis));
    EXPECT_EQ(copy->revision, 3u);
    EXPECT_EQ(copy->job_minus_yours_ns, -12345);
    EXPECT_TRUE(copy->stands && copy->announced);
  }
}

}  // namespace
}  // namespace ncclwatch::testing
