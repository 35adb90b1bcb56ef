// What calls say of single ranks, out of real black boxes; and the live comparison of it.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>

#include "core/live/live_compare.h"
#include "core/reader/box.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::LiveCompare;
using reader::MappedBox;

class Written {
 public:
  explicit Written(const reader::BoxImage& image) : bytes_(BoxBytes(image)) {
    memory_ = static_cast<char*>(::operator new(bytes_.size(), std::align_val_t(format::kPage)));
    std::memcpy(memory_, bytes_.data(), bytes_.size());
    box = MappedBox::Borrow(&header(), "box");
  }
  ~Written() { ::operator delete(memory_, std::align_val_t(format::kPage)); }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  format::Header& header() { return *reinterpret_cast<format::Header*>(memory_); }
  format::Part& part(std::uint64_t number) {
    auto* all = reinterpret_cast<format::Part*>(memory_ + header().parts.offset);
    return all[number % header().parts.count];
  }
  std::unique_ptr<MappedBox> box;

 private:
  std::vector<char> bytes_;
  char* memory_ = nullptr;
};

MpiJob Gather(const format::Part& of_one) {
  MpiJob job(2);
  job.Return(0, job.Amounts(0, Function::MPI_Gatherv, {Ints(8)}, {Ints(8), Ints(8)}, 0));
  job.Return(1, job.Amounts(1, Function::MPI_Gatherv, {of_one}, {}, 0));
  return job;
}

TEST(Parts, AreReadAsWritten) {
  MpiJob job = Gather(Ints(5));
  Written written(job.Box(0));
  ASSERT_NE(written.box, nullptr);
  const reader::BoxImage image = written.box->Image();
  ASSERT_EQ(image.parts.size(), 1u);
  EXPECT_EQ(image.parts[0].sends.size(), 1u);
  ASSERT_EQ(image.parts[0].receives.size(), 2u);
  EXPECT_EQ(image.parts[0].receives[1].bytes, 32u);
  EXPECT_EQ(image.calls.back().tag, format::kNoTag);
  EXPECT_EQ(image.PartsOf(image.calls.back().slot), &image.parts[0]);
  EXPECT_EQ(written.box->Sifted(1).parts.size(), 1u);
}

TEST(Parts, OverwrittenOnesAreNone) {
  MpiJob job = Gather(Ints(5));
  {
    Written written(job.Box(0));
    written.part(0) = Ints(1);  // the head
    EXPECT_TRUE(written.box->Image().parts.empty());
  }
  {
    Written written(job.Box(0));
    written.part(2).bytes ^= 1;  // behind it
    EXPECT_TRUE(written.box->Image().parts.empty());
  }
  {
    Written written(job.Box(0));
    auto& head = reinterpret_cast<format::PartsHead&>(written.part(0));
    head.sends = head.receives = 0xffff;  // more than there can be
    EXPECT_TRUE(written.box->Image().parts.empty());
  }
}

TEST(Parts, BoxesOfVersion1HaveNone) {
  MpiJob job = Gather(Ints(5));
  Written written(job.Box(0));
  written.header().version = 1;
  written.header().header_bytes = format::kHeaderBytesOf1;
  const auto bytes = static_cast<std::size_t>(written.header().file_bytes);
  EXPECT_EQ(reader::CheckHeader(&written.header(), bytes, bytes), "");
  const auto old = MappedBox::Borrow(&written.header(), "old");
  ASSERT_NE(old, nullptr);
  EXPECT_TRUE(old->Image().parts.empty());
  EXPECT_EQ(old->Image().calls.size(), 1u);
}

bool Suspicious(MpiJob* job, int ranks, LiveCompare::What what) {
  std::vector<std::unique_ptr<Written>> boxes;
  LiveCompare compare;
  for (int rank = 0; rank < ranks; ++rank) {
    boxes.push_back(std::make_unique<Written>(job->Box(rank)));
    compare.Follow(*boxes.back()->box);
  }
  compare.Poll(job->now_ns());
  const auto& suspicions = compare.suspicions();
  const bool found = suspicions.size() == 1 && suspicions[0].what == what;
  EXPECT_TRUE(found || suspicions.empty());
  for (const auto& box : boxes) compare.Forget(*box->box);
  return found;
}

TEST(Parts, AreComparedLive) {
  MpiJob equal = Gather(Ints(8));
  EXPECT_FALSE(Suspicious(&equal, 2, LiveCompare::What::kDifferentAmount));
  MpiJob other = Gather(Ints(5));
  EXPECT_TRUE(Suspicious(&other, 2, LiveCompare::What::kDifferentAmount));
  MpiJob unknown = Gather({});
  EXPECT_FALSE(Suspicious(&unknown, 2, LiveCompare::What::kDifferentAmount));
}

TEST(Parts, CreationsAreComparedLive) {
  MpiJob job(2);
  job.Return(0, job.Create(0, Function::MPI_Comm_dup));
  job.Return(1, job.Create(1, Function::MPI_Comm_dup));
  EXPECT_FALSE(Suspicious(&job, 2, LiveCompare::What::kDifferentCreation));
  job.Return(0, job.Create(0, Function::MPI_Comm_dup));
  job.Return(1, job.Create(1, Function::MPI_Comm_split));
  EXPECT_TRUE(Suspicious(&job, 2, LiveCompare::What::kDifferentCreation));
}

}  // namespace
}  // namespace ncclwatch::testing
