#include "tests/softgpu/checks/cuda_support.h"

namespace softgpu {
namespace {

class MemoryOperations : public CudaCheck {
 protected:
  void SetUp() override {
    CudaCheck::SetUp();
    ASSERT_CU(cuMemHostAlloc(reinterpret_cast<void**>(&words_), 64, 0));
    address_ = reinterpret_cast<CUdeviceptr>(words_);
  }

  uint64_t Load(int i) { return __atomic_load_n(words_ + i, __ATOMIC_ACQUIRE); }
  void Store(int i, uint64_t value) { __atomic_store_n(words_ + i, value, __ATOMIC_RELEASE); }

  uint64_t* words_ = nullptr;
  CUdeviceptr address_ = 0;
};

TEST_F(MemoryOperations, WriteInStreamOrder) {
  CUstream stream = NewStream();
  ASSERT_CU(softgpuStall(stream, -1));
  ASSERT_CU(cuStreamWriteValue64(stream, address_, 0x123456789abcdef0, CU_STREAM_WRITE_VALUE_DEFAULT));
  ASSERT_CU(cuStreamWriteValue32(stream, address_ + 8, 7, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
  EXPECT_EQ(Load(0), 0U);
  ASSERT_CU(softgpuRelease(stream));
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(Load(0), 0x123456789abcdef0U);
  EXPECT_EQ(Load(1), 7U);
}

TEST_F(MemoryOperations, AreVisibleToTheHostWithoutSynchronisation) {
  CUstream stream = NewStream();
  ASSERT_CU(softgpuStall(stream, 5));
  ASSERT_CU(cuStreamWriteValue64(stream, address_, 1, 0));
  while (Load(0) != 1) {
  }
}

TEST_F(MemoryOperations, WaitUntilTheHostWrites) {
  struct {
    unsigned flags;
    uint64_t value;
    uint64_t not_yet;
    uint64_t enough;
  } cases[] = {{CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5},
               {CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 6},
               {CU_STREAM_WAIT_VALUE_GEQ, 2, ~uint64_t{0}, 2},  // cyclic: -1 is before 2
               {CU_STREAM_WAIT_VALUE_AND, 4, 3, 12},
               {CU_STREAM_WAIT_VALUE_NOR, ~uint64_t{1}, 1, 0}};
  for (const auto& test : cases) {
    CUstream stream = NewStream();
    Store(0, test.not_yet);
    Store(1, 0);
    ASSERT_CU(cuStreamWaitValue64(stream, address_, test.value, test.flags));
    ASSERT_CU(cuStreamWriteValue64(stream, address_ + 8, 1, 0));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY) << test.flags;
    EXPECT_EQ(Load(1), 0U);
    Store(0, test.enough);
    ASSERT_CU(cuStreamSynchronize(stream));
    EXPECT_EQ(Load(1), 1U);
  }
}

TEST_F(MemoryOperations, LetOneStreamReleaseAnother) {
  CUstream waiter = NewStream();
  CUstream writer = NewStream();
  ASSERT_CU(cuStreamWaitValue32(waiter, address_, 9, CU_STREAM_WAIT_VALUE_EQ));
  ASSERT_CU(Say(waiter, 'b'));
  ASSERT_CU(Say(writer, 'a'));
  ASSERT_CU(cuStreamWriteValue32(writer, address_, 9, 0));
  ASSERT_CU(cuStreamSynchronize(waiter));
  EXPECT_EQ(Said(), "ab");
}

TEST_F(MemoryOperations, ComeInBatches) {
  CUstream stream = NewStream();
  CUstreamBatchMemOpParams batch[3] = {};
  batch[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  batch[0].writeValue.address = address_;
  batch[0].writeValue.value = 1;
  batch[1].operation = CU_STREAM_MEM_OP_BARRIER;
  batch[2].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  batch[2].writeValue.address = address_ + 8;
  batch[2].writeValue.value64 = uint64_t{1} << 40;
  ASSERT_CU(cuStreamBatchMemOp(stream, 3, batch, 0));
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(Load(0), 1U);
  EXPECT_EQ(Load(1), uint64_t{1} << 40);
  EXPECT_EQ(cuStreamBatchMemOp(stream, 257, batch, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryOperations, NeedAnAlignedAddressThatTheDeviceKnows) {
  CUstream stream = NewStream();
  uint64_t pageable = 0;
  EXPECT_EQ(cuStreamWriteValue64(stream, reinterpret_cast<CUdeviceptr>(&pageable), 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue64(stream, address_ + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue32(stream, address_ + 64, 1, 0), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace softgpu
