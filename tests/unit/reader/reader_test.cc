// Black boxes as files: what was written is read, and what is damaged is named.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "core/diagnose.h"
#include "core/reader/box.h"
#include "core/report/render.h"
#include "core/view/from_boxes.h"
#include "tests/unit/support/job_builder.h"

namespace ncclwatch::testing {
namespace {

namespace fs = std::filesystem;
using reader::BoxImage;
using reader::Failure;
using reader::MappedBox;

class ReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ncclwatch-reader-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string Write(const std::string& name, const std::vector<char>& bytes) {
    std::string path = directory_ + "/" + name;
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path;
  }

  // The reason why both ways of reading refuse the bytes.
  std::string Refusal(const std::vector<char>& bytes) {
    const std::string path = Write("damaged.box", bytes);
    const auto read = reader::ReadBox(path);
    const auto mapped = MappedBox::Open(path);
    EXPECT_TRUE(std::holds_alternative<Failure>(read));
    EXPECT_TRUE(std::holds_alternative<Failure>(mapped));
    if (!std::holds_alternative<Failure>(read)) return "";
    EXPECT_EQ(std::get<Failure>(read).path, path);
    EXPECT_EQ(std::get<Failure>(read).reason, std::get<Failure>(mapped).reason);
    return std::get<Failure>(read).reason;
  }

  std::string directory_;
};

Job Sample() {
  Job job(2);
  job.Starts();
  job.Done({0, 1}, Job::kWorld, AllReduce());
  job.Call({0}, Job::kWorld, Broadcast(1));
  job.Enter(1, Job::kWorld, AllGather());
  job.Message(0, Job::kWorld, Function::ncclSend, 1);
  job.Die(1, Job::Signal(9));
  return job;
}

std::vector<char> SampleBytes() { return BoxBytes(Sample().Snapshot().boxes[0]); }

format::Header* HeaderOf(std::vector<char>* bytes) { return reinterpret_cast<format::Header*>(bytes->data()); }

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(ReaderTest, ReadsWhatWasWritten) {
  const Job job = Sample();
  const BoxImage want = job.Snapshot().boxes[0];
  const auto result = reader::ReadBox(Write("a.box", BoxBytes(want)));
  ASSERT_TRUE(std::holds_alternative<BoxImage>(result)) << std::get<Failure>(result).reason;
  const auto& got = std::get<BoxImage>(result);
  EXPECT_EQ(got.host, want.host);
  EXPECT_EQ(got.job, want.job);
  EXPECT_EQ(got.pid, want.pid);
  EXPECT_EQ(got.rank, want.rank);
  EXPECT_EQ(got.realtime_minus_monotonic_ns, want.realtime_minus_monotonic_ns);
  EXPECT_EQ(got.head, want.head);
  EXPECT_EQ(got.torn, 0u);
  ASSERT_EQ(got.calls.size(), want.calls.size());
  for (std::size_t i = 0; i < got.calls.size(); ++i) {
    EXPECT_EQ(got.calls[i].slot, want.calls[i].slot);
    EXPECT_EQ(got.calls[i].function, want.calls[i].function);
    EXPECT_EQ(got.calls[i].entered_ns, want.calls[i].entered_ns);
    EXPECT_EQ(got.calls[i].returned_ns, want.calls[i].returned_ns);
    EXPECT_EQ(got.calls[i].chain, want.calls[i].chain);
    EXPECT_EQ(got.calls[i].flags, want.calls[i].flags);
    EXPECT_EQ(got.calls[i].start, want.calls[i].start);
    EXPECT_EQ(got.calls[i].root, want.calls[i].root);
  }
  ASSERT_EQ(got.communicators.size(), 1u);
  EXPECT_EQ(got.communicators[0].id, want.communicators[0].id);
  EXPECT_EQ(got.gpu_marks, format::GpuMarks::kBoth);
  EXPECT_EQ(got.communicators[0].marks, want.communicators[0].marks);
  EXPECT_EQ(got.communicators[0].starts, want.communicators[0].starts);
  EXPECT_TRUE(got.communicators[0].Started(got.calls[0].start));
  ASSERT_EQ(got.peers.size(), 1u);
  EXPECT_EQ(got.peers[0].sends, 1u);
  ASSERT_EQ(got.observations.size(), 1u);
  EXPECT_EQ(got.observations[0].exit_signal, 9);
}

TEST_F(ReaderTest, MappedSeesWhatIsWrittenLater) {
  const std::string path = Write("a.box", SampleBytes());
  auto opened = MappedBox::Open(path);
  ASSERT_TRUE(std::holds_alternative<std::unique_ptr<MappedBox>>(opened));
  const MappedBox& box = *std::get<std::unique_ptr<MappedBox>>(opened);
  const std::uint64_t head = box.head();
  reader::Call call;
  EXPECT_FALSE(box.Read(head, &call));
  EXPECT_TRUE(box.Read(head - 1, &call));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const std::uint64_t more = head + 1;
  file.seekp(offsetof(format::Header, head));
  file.write(reinterpret_cast<const char*>(&more), sizeof(more));
  file.flush();
  EXPECT_EQ(box.head(), head + 1);
  const BoxImage image = box.Image();
  EXPECT_EQ(image.torn, 1u);
  EXPECT_EQ(image.calls.size(), head);
  EXPECT_EQ(box.Image(1).calls.size() + box.Image(1).torn, 1u);
}

TEST_F(ReaderTest, AMappedFileThatIsCutShortIsNoticed) {
  const std::string path = Write("a.box", SampleBytes());
  const auto opened = MappedBox::Open(path);
  const MappedBox& box = *std::get<std::unique_ptr<MappedBox>>(opened);
  EXPECT_TRUE(box.StillWhole());
  fs::rename(path, path + ".elsewhere");
  EXPECT_TRUE(box.StillWhole());
  Write("a.box", {'x'});  // another file of that name
  EXPECT_TRUE(box.StillWhole());
  fs::rename(path + ".elsewhere", path);
  fs::resize_file(path, 4096);
  EXPECT_FALSE(box.StillWhole());
}

TEST_F(ReaderTest, BorrowDoesNotOwn) {
  std::vector<char> bytes = SampleBytes();
  auto* memory = static_cast<char*>(::operator new(bytes.size(), std::align_val_t(format::kPage)));
  std::memcpy(memory, bytes.data(), bytes.size());
  {
    const auto box = MappedBox::Borrow(reinterpret_cast<const format::Header*>(memory), "own.box");
    ASSERT_NE(box, nullptr);
    EXPECT_EQ(box->communicators(), 1u);
    EXPECT_EQ(box->Image().path, "own.box");
  }
  EXPECT_EQ(std::memcmp(memory, bytes.data(), bytes.size()), 0);
  ::operator delete(memory, std::align_val_t(format::kPage));
}

TEST_F(ReaderTest, OnlyTheNewestSlotsOfAWrappedRing) {
  Job job(1);
  for (int i = 0; i < 300; ++i) job.Done({0}, Job::kWorld, AllReduce());
  const auto result = reader::ReadBox(Write("a.box", BoxBytes(job.Snapshot().boxes[0], 256)));
  const auto& image = std::get<BoxImage>(result);
  EXPECT_EQ(image.first_slot, 44u);
  EXPECT_EQ(image.calls.size(), 256u);
  EXPECT_EQ(image.calls.front().slot, 44u);
}

TEST_F(ReaderTest, TheCycleCounterIsTurnedIntoNanoseconds) {
  std::vector<char> bytes = SampleBytes();
  format::Clock& clock = HeaderOf(&bytes)->clock;
  clock.source = static_cast<std::uint32_t>(format::ClockSource::kCycleCounter);
  clock.realtime_minus_monotonic_ns = 1'000'000'000;
  clock.anchors[0] = {1'000'000, 5'000'000'000, 0.5};
  clock.anchored = 1;
  const auto opened = MappedBox::Open(Write("a.box", bytes));
  const MappedBox& box = *std::get<std::unique_ptr<MappedBox>>(opened);
  EXPECT_EQ(box.ToNanoseconds(1'000'000), 5'000'000'000);
  EXPECT_EQ(box.ToNanoseconds(3'000'000), 5'001'000'000);
  EXPECT_EQ(box.ToNanoseconds(0), 4'999'500'000);
  EXPECT_EQ(box.Image(0).realtime_minus_monotonic_ns, 1'000'000'000);
}

TEST_F(ReaderTest, ANewClockAnchorMovesNoEarlierInstant) {
  std::vector<char> bytes = SampleBytes();
  format::Clock& clock = HeaderOf(&bytes)->clock;
  clock.source = static_cast<std::uint32_t>(format::ClockSource::kCycleCounter);
  clock.anchors[0] = {1'000'000, 5'000'000'000, 0.5};
  clock.anchors[1] = {2'000'000, 5'000'499'000, 0.25};  // the first ran 1000 ns ahead by then
  clock.anchored = 2;
  const auto opened = MappedBox::Open(Write("a.box", bytes));
  const MappedBox& box = *std::get<std::unique_ptr<MappedBox>>(opened);
  EXPECT_EQ(box.ToNanoseconds(0), 4'999'500'000);
  EXPECT_EQ(box.ToNanoseconds(1'500'000), 5'000'250'000);
  EXPECT_EQ(box.ToNanoseconds(1'999'999), 5'000'499'000) << "later than the anchor that follows";
  EXPECT_EQ(box.ToNanoseconds(2'000'000), 5'000'499'000);
  EXPECT_EQ(box.ToNanoseconds(2'000'004), 5'000'499'001);
}

TEST_F(ReaderTest, OnlyTheClockAnchorsThatAreWholeCount) {
  std::vector<char> bytes = SampleBytes();
  format::Clock& clock = HeaderOf(&bytes)->clock;
  clock.source = static_cast<std::uint32_t>(format::ClockSource::kCycleCounter);
  clock.anchored = 40;  // numbers 25 to 39 count; number 24's place is where number 40 is being written
  for (std::uint32_t n = 24; n < 40; ++n)
    clock.anchors[n % format::kClockAnchors] = {std::uint64_t{n} * 1000, std::int64_t{n} * 1'000'000, 1.0};
  clock.anchors[40 % format::kClockAnchors] = {0, -1, -1.0};
  const auto opened = MappedBox::Open(Write("a.box", bytes));
  const MappedBox& box = *std::get<std::unique_ptr<MappedBox>>(opened);
  EXPECT_EQ(box.ToNanoseconds(39'500), 39'000'500);
  EXPECT_EQ(box.ToNanoseconds(25'000), 25'000'000);
  EXPECT_EQ(box.ToNanoseconds(24'000), 24'999'000) << "backwards from the oldest";
}

TEST_F(ReaderTest, NamesWhatIsWrong) {
  EXPECT_HAS(Refusal({}), "empty");
  EXPECT_HAS(Refusal(std::vector<char>(8192, 0)), "zeroed");
  EXPECT_HAS(Refusal(std::vector<char>(8192, 'x')), "not a black box");
  std::vector<char> bytes = SampleBytes();
  EXPECT_HAS(Refusal({bytes.begin(), bytes.begin() + 100}), "truncated");
  EXPECT_HAS(Refusal({bytes.begin(), bytes.end() - 1}), "truncated");
  bytes = SampleBytes();
  HeaderOf(&bytes)->version = 7;
  EXPECT_HAS(Refusal(bytes), "newer");
  bytes = SampleBytes();
  HeaderOf(&bytes)->endian_mark = 0x04030201;
  EXPECT_HAS(Refusal(bytes), "byte order");
  bytes = SampleBytes();
  HeaderOf(&bytes)->ring.count = 1000;
  EXPECT_HAS(Refusal(bytes), "ring");
  bytes = SampleBytes();
  HeaderOf(&bytes)->communicators.count = 0xffffffff;
  EXPECT_HAS(Refusal(bytes), "communicator section");
  bytes = SampleBytes();
  HeaderOf(&bytes)->peers.offset = UINT64_MAX - 4095;
  EXPECT_HAS(Refusal(bytes), "peer section");
  bytes = SampleBytes();
  HeaderOf(&bytes)->observations.bytes = UINT64_MAX;
  EXPECT_HAS(Refusal(bytes), "observation section");
  bytes = SampleBytes();
  HeaderOf(&bytes)->strings.entry_bytes = 3;
  EXPECT_HAS(Refusal(bytes), "string section");
  bytes = SampleBytes();
  HeaderOf(&bytes)->clock.source = 1;
  EXPECT_HAS(Refusal(bytes), "anchor");
  HeaderOf(&bytes)->clock.anchored = 1;
  HeaderOf(&bytes)->clock.anchors[0].ns_per_tick = std::numeric_limits<double>::quiet_NaN();
  EXPECT_HAS(Refusal(bytes), "clock");
  bytes = SampleBytes();
  HeaderOf(&bytes)->file_bytes = 1ull << 50;
  EXPECT_HAS(Refusal(bytes), "claims");
}

TEST_F(ReaderTest, NothingThatIsNotAFile) {
  EXPECT_HAS(std::get<Failure>(reader::ReadBox(directory_)).reason, "directory");
  EXPECT_HAS(std::get<Failure>(reader::ReadBox(directory_ + "/none.box")).reason, "cannot be opened");
  const std::string pipe = directory_ + "/pipe.box";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_HAS(std::get<Failure>(reader::ReadBox(pipe)).reason, "not a regular file");
}

TEST_F(ReaderTest, ImpossibleMembersAreLeftOutAndCounted) {
  std::vector<char> bytes = SampleBytes();
  auto* comm = reinterpret_cast<format::Communicator*>(bytes.data() + HeaderOf(&bytes)->communicators.offset);
  comm->rank = 5;  // of 2
  const auto image = std::get<BoxImage>(reader::ReadBox(Write("a.box", bytes)));
  EXPECT_EQ(image.damaged, 1u);
  EXPECT_TRUE(image.communicators.empty());
}

// Anything may be in the file: it is read or refused, and what is read can be judged.
TEST_F(ReaderTest, RandomDamageNeverHurts) {
  const std::vector<char> whole = SampleBytes();
  std::mt19937 random(20260101);
  for (int round = 0; round < 300; ++round) {
    std::vector<char> bytes = whole;
    const int flips = 1 + static_cast<int>(random() % 64);
    for (int i = 0; i < flips; ++i) {
      const std::size_t within = i % 2 == 0 ? sizeof(format::Header) : bytes.size();
      bytes[random() % within] = static_cast<char>(random());
    }
    const std::string path = Write("a.box", bytes);
    auto result = reader::ReadBox(path);
    auto mapped = MappedBox::Open(path);
    if (auto* box = std::get_if<std::unique_ptr<MappedBox>>(&mapped)) (*box)->Image();
    if (auto* image = std::get_if<BoxImage>(&result)) {
      EXPECT_LE(image->calls.size(), 256u);
      diagnosis::ToText(diagnosis::Diagnose(diagnosis::FromBoxes({std::move(*image)})));
    }
  }
}

TEST_F(ReaderTest, ARunWithOneDamagedBox) {
  Sample().WriteBoxes(directory_);
  Write("broken.box", std::vector<char>(5000, 'x'));
  Write("diagnosis.json", {'{', '}'});
  const reader::RunImage run = reader::ReadRun({directory_});
  EXPECT_EQ(run.directory, directory_);
  EXPECT_EQ(run.boxes.size(), 2u);
  ASSERT_EQ(run.failures.size(), 1u);
  EXPECT_HAS(run.failures[0].path, "broken.box");
}

TEST_F(ReaderTest, FilesAndDirectoriesMixedAndNothingTwice) {
  const auto paths = Sample().WriteBoxes(directory_);
  EXPECT_EQ(reader::ReadRun({paths[0], directory_, paths[1]}).boxes.size(), 2u);
  EXPECT_EQ(reader::ReadRun({paths[0]}).boxes.size(), 1u);
  fs::create_directory(directory_ + "/empty");
  EXPECT_HAS(reader::ReadRun({directory_ + "/empty"}).failures.at(0).reason, "no black box");
}

TEST_F(ReaderTest, TheNewestAttemptBelowAFolder) {
  fs::create_directories(directory_ + "/job-0");
  fs::create_directories(directory_ + "/job-1");
  const auto old_paths = Sample().WriteBoxes(directory_ + "/job-1");
  Sample().WriteBoxes(directory_ + "/job-0");
  for (const auto& path : old_paths)
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(reader::ReadRun({directory_}).directory, directory_ + "/job-0");
}

// The whole way: files on disk give the verdict that the images gave.
TEST_F(ReaderTest, FilesGiveTheLiveVerdict) {
  Job job(4);
  job.Done(Range(0, 4), Job::kWorld, AllReduce());
  job.Call({0, 1, 3}, Job::kWorld, AllReduce());
  job.Call({2}, Job::kWorld, AllGather());
  job.Pass(0.3);
  job.WriteBoxes(directory_);
  const auto offline = diagnosis::Diagnose(diagnosis::FromBoxes(reader::ReadRun({directory_}).boxes));
  EXPECT_EQ(diagnosis::ToJson(offline), diagnosis::ToJson(job.Diagnose()));
  EXPECT_EQ(offline.findings.size(), 1u);
}

// An abort lets what hangs on the GPU end, by the application or by the watchdog: the verdict is about before.
TEST_F(ReaderTest, AbortsAfterTheVerdictDoNotFinishAnything) {
  for (const int outstanding : {1, 200}) {
    for (const bool recorded : {true, false}) {
      Job job(4);
      job.Done(Range(0, 4), Job::kWorld, AllReduce());
      for (int i = 0; i < outstanding; ++i) job.Call({0, 1, 3}, Job::kWorld, AllReduce());
      job.Pass(120);
      const diagnosis::Diagnosis live = job.Diagnose();
      ASSERT_EQ(live.findings.size(), 1u);
      const std::int64_t diagnosed_ns = job.now_ns();
      job.Pass(1);
      if (recorded) {
        job.State({0, 1, 3}, Job::kWorld, format::CommunicatorState::kAborted);
        job.Finish({0, 1, 3}, Job::kWorld);
      } else {
        job.Abort(Range(0, 4), Job::kWorld);
      }
      job.WriteBoxes(directory_);
      std::vector<BoxImage> boxes = reader::ReadRun({directory_}).boxes;
      for (BoxImage& box : boxes)
        if (box.leader_state.verdict_at_ns != 0) box.leader_state.verdict_at_ns = diagnosed_ns;
      EXPECT_EQ(diagnosis::ToJson(diagnosis::Diagnose(diagnosis::FromBoxes(std::move(boxes)))), diagnosis::ToJson(live))
          << outstanding << (recorded ? " recorded" : " behind its back");
    }
  }
}

}  // namespace
}  // namespace ncclwatch::testing
