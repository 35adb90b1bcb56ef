// Calls come out of their packing as they went in.
#include "analyzer/recording/packed_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace ncclwatch::analyzer {
namespace {

using reader::Call;

Call OfNccl(std::mt19937_64* draw) {
  auto& random = *draw;
  Call call;
  call.entered_ns = static_cast<std::int64_t>(random() >> 4);
  if (random() % 8 != 0) call.returned_ns = call.entered_ns + static_cast<std::int64_t>(random() % 1000) - 100;
  call.position = random() % 4 == 0 ? random() : 7;
  call.count = random();
  call.chain = random();
  call.stream = random() % 3;
  call.site = random() % 3;
  call.group = random() % 2 == 0 ? 0 : random();
  call.result = call.returned_ns == 0 ? format::kNoResult : static_cast<std::int32_t>(random() % 3);
  call.function = random() % 2 == 0 ? functions::Function::ncclAllReduce : functions::Function::ncclSend;
  call.communicator = static_cast<std::uint32_t>(random() % 3);
  call.generation = static_cast<std::uint32_t>(random() % 2);
  call.thread = static_cast<std::uint32_t>(random() % 4);
  call.flags = static_cast<std::uint32_t>(random() % 2) * format::kMarked +
               static_cast<std::uint32_t>(random() % 2) * format::kStartMarked +
               static_cast<std::uint32_t>(random() % 2) * format::kTimed;
  call.ticket = random();
  if ((call.flags & format::kStartMarked) != 0) call.start = random();
  if ((call.flags & format::kTimed) != 0) call.kernel = format::UnpackKernelTime(random());
  call.root = static_cast<std::int32_t>(random() % 5) - 1;
  call.dtype = static_cast<std::uint8_t>(random() % 9);
  call.reduction = static_cast<std::uint8_t>(random() % 5);
  return call;
}

Call OfMpi(std::mt19937_64* draw) {
  auto& random = *draw;
  Call call = OfNccl(draw);
  call.function = functions::Function::MPI_Irecv;
  call.flags = format::kRequest;
  call.ticket = call.start = 0;
  call.kernel = {};
  call.completed_ns = random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random() >> 4);
  call.tag = static_cast<std::int32_t>(random() % 9) - 2;
  call.signature = static_cast<std::uint32_t>(random());
  call.bytes = random() % 2 == 0 ? 0 : random();
  call.waiter = random() % 2 == 0 ? 0 : random();
  call.parts = random() % 2 == 0 ? 0 : random();
  call.awaited = random() % 2 == 0;
  call.polled = random() % 2 == 0;
  call.wait_any = random() % 2 == 0;
  return call;
}

// Field by field: nothing else compares calls.
void ExpectSame(const Call& one, const Call& other) {
  EXPECT_EQ(one.slot, other.slot);
  EXPECT_EQ(one.entered_ns, other.entered_ns);
  EXPECT_EQ(one.returned_ns, other.returned_ns);
  EXPECT_EQ(one.position, other.position);
  EXPECT_EQ(one.count, other.count);
  EXPECT_EQ(one.chain, other.chain);
  EXPECT_EQ(one.stream, other.stream);
  EXPECT_EQ(one.site, other.site);
  EXPECT_EQ(one.group, other.group);
  EXPECT_EQ(one.ticket, other.ticket);
  EXPECT_EQ(one.start, other.start);
  EXPECT_EQ(one.result, other.result);
  EXPECT_EQ(one.function, other.function);
  EXPECT_EQ(one.communicator, other.communicator);
  EXPECT_EQ(one.generation, other.generation);
  EXPECT_EQ(one.thread, other.thread);
  EXPECT_EQ(one.flags, other.flags);
  EXPECT_EQ(one.root, other.root);
  EXPECT_EQ(one.dtype, other.dtype);
  EXPECT_EQ(one.reduction, other.reduction);
  EXPECT_EQ(one.kernel, other.kernel);
  EXPECT_EQ(one.completed_ns, other.completed_ns);
  EXPECT_EQ(one.tag, other.tag);
  EXPECT_EQ(one.signature, other.signature);
  EXPECT_EQ(one.bytes, other.bytes);
  EXPECT_EQ(one.waiter, other.waiter);
  EXPECT_EQ(one.parts, other.parts);
  EXPECT_EQ(one.awaited, other.awaited);
  EXPECT_EQ(one.polled, other.polled);
  EXPECT_EQ(one.wait_any, other.wait_any);
}

TEST(PackedCalls, ComeOutAsTheyWentIn) {
  std::mt19937_64 draw(1);
  std::vector<Call> calls;
  for (std::uint64_t slot = 0; slot < 2 * PackedCalls::kSlice + 100; ++slot) {
    calls.push_back(slot % 3 == 0 ? OfMpi(&draw) : OfNccl(&draw));
    calls.back().slot = slot;
  }
  std::vector<std::uint32_t> order(calls.size());
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), draw);
  order.resize(order.size() - 50);  // those are not wanted
  PackedCalls packed(calls, order);
  std::size_t next = 0;
  for (std::vector<Call> slice = packed.TakeSlice(); !slice.empty(); slice = packed.TakeSlice())
    for (const Call& call : slice) {
      SCOPED_TRACE(next);
      ASSERT_LT(next, order.size());
      ExpectSame(call, calls[order[next++]]);
      if (HasFailure()) return;
    }
  EXPECT_EQ(next, order.size());
}

TEST(PackedCalls, OfNoneThereAreNone) { EXPECT_TRUE(PackedCalls({}, {}).TakeSlice().empty()); }

}  // namespace
}  // namespace ncclwatch::analyzer
