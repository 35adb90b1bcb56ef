// Every collective, datatype and reduction against plain arithmetic, done here one element at a time with NVIDIA's own
// conversions of the narrow types (the host side of cuda_fp16.h, cuda_bf16.h and cuda_fp8.h).
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "nccl_harness.h"

namespace softgpu::checks {
namespace {

constexpr int kTypes = 12;
const char* const kTypeNames[kTypes] = {"int8", "uint8",   "int32",   "uint32",   "int64",  "uint64",
                                        "half", "float32", "float64", "bfloat16", "e4m3fn", "e5m2"};
constexpr size_t kSizes[kTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
constexpr bool IsInteger(int type) { return type <= 5; }

using Bytes = std::vector<uint8_t>;

// One element as a number: integers exactly, floating-point types by their value.
struct Number {
  uint64_t integer = 0;
  double real = 0;
};

template <typename T>
T FromBytes(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

__nv_fp8_interpretation_t Fp8Kind(int type) { return type == 10 ? __NV_E4M3 : __NV_E5M2; }

Number Load(int type, const uint8_t* p) {
  switch (type) {
    case 0: return {static_cast<uint64_t>(int64_t{FromBytes<int8_t>(p)}), 0};
    case 1: return {*p, 0};
    case 2: return {static_cast<uint64_t>(int64_t{FromBytes<int32_t>(p)}), 0};
    case 3: return {FromBytes<uint32_t>(p), 0};
    case 4:
    case 5: return {FromBytes<uint64_t>(p), 0};
    case 6: return {0, __half2float(FromBytes<__half>(p))};
    case 7: return {0, FromBytes<float>(p)};
    case 8: return {0, FromBytes<double>(p)};
    case 9: return {0, __bfloat162float(FromBytes<__nv_bfloat16>(p))};
    default: return {0, __half2float(__half(__nv_cvt_fp8_to_halfraw(*p, Fp8Kind(type))))};
  }
}

// Rounds to the element type.
void Store(int type, Number value, uint8_t* p) {
  if (IsInteger(type)) {
    std::memcpy(p, &value.integer, kSizes[type]);  // little-endian: the low bytes, which is the value modulo 2^n
  } else if (type == 6) {
    const __half half = __float2half_rn(static_cast<float>(value.real));
    std::memcpy(p, &half, sizeof half);
  } else if (type == 7) {
    const float single = static_cast<float>(value.real);
    std::memcpy(p, &single, sizeof single);
  } else if (type == 8) {
    std::memcpy(p, &value.real, sizeof value.real);
  } else if (type == 9) {
    const __nv_bfloat16 narrow = __float2bfloat16_rn(static_cast<float>(value.real));
    std::memcpy(p, &narrow, sizeof narrow);
  } else {
    // NCCL computes in half precision and converts the result.
    *p = __nv_cvt_halfraw_to_fp8(__half_raw(__float2half_rn(static_cast<float>(value.real))), __NV_SATFINITE,
                                 Fp8Kind(type));
  }
}

bool Signed(int type) { return type == 0 || type == 2 || type == 4; }

bool Less(int type, Number a, Number b) {
  if (!IsInteger(type)) return a.real < b.real;
  return Signed(type) ? static_cast<int64_t>(a.integer) < static_cast<int64_t>(b.integer) : a.integer < b.integer;
}

// a op b, rounded to the type. op: ncclSum, ncclProd, ncclMax, ncclMin.
void Combine(int type, int op, uint8_t* a, const uint8_t* b) {
  const Number x = Load(type, a);
  const Number y = Load(type, b);
  Number result = Less(type, x, y) == (op == ncclMax) ? y : x;
  if (op == ncclSum) result = {x.integer + y.integer, x.real + y.real};
  if (op == ncclProd) result = {x.integer * y.integer, x.real * y.real};
  // float is what single precision is computed in; a double sum of two floats would be rounded twice, but equally.
  Store(type, result, a);
}

void Multiply(int type, uint8_t* a, const uint8_t* scalar) { Combine(type, ncclProd, a, scalar); }

Bytes Scalar(int type, double value) {
  Bytes bytes(kSizes[type]);
  Store(type, {static_cast<uint64_t>(static_cast<int64_t>(value)), value}, bytes.data());
  return bytes;
}

// The reciprocal as NCCL makes it: rounded from float once (not by way of half) for 8-bit types.
Bytes Reciprocal(int type, int n) {
  if (type < 10) return type == 8 ? Scalar(type, 1.0 / n) : Scalar(type, static_cast<float>(1.0 / n));
  return {__nv_cvt_float_to_fp8(static_cast<float>(1.0 / n), __NV_SATFINITE, Fp8Kind(type))};
}

// Element `i` of what `rank` contributes: spread over the type's range, negative where it can be, some large.
void Fill(int type, int rank, size_t count, Bytes* bytes, uint64_t seed) {
  bytes->resize(count * kSizes[type]);
  uint64_t state = seed * 1000003 + static_cast<uint64_t>(rank) * 7919 + type;
  for (size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const uint64_t random = state >> 20;
    const double real = (static_cast<double>(random % 4001) - 2000) / (random & 0x10000 ? 16.0 : 512.0);
    Store(type, {random, real}, bytes->data() + i * kSizes[type]);
  }
}

// What a reduction gives for contributions of all ranks.
Bytes Reduced(int type, int op, const std::vector<Bytes>& all, const std::vector<Bytes>* scalars) {
  const size_t size = kSizes[type];
  const int n = static_cast<int>(all.size());
  Bytes result(all[0].size());
  const bool real_average = op == ncclAvg && !IsInteger(type);
  const Bytes reciprocal = real_average ? Reciprocal(type, n) : Bytes();
  for (size_t i = 0; i < result.size(); i += size) {
    uint8_t sum[8];
    for (int r = 0; r < n; ++r) {
      uint8_t element[8];
      std::memcpy(element, &all[r][i], size);
      if (real_average) Multiply(type, element, reciprocal.data());
      if (scalars) Multiply(type, element, (*scalars)[r].data());
      if (r == 0) {
        std::memcpy(sum, element, size);
      } else {
        Combine(type, op == ncclProd || op == ncclMax || op == ncclMin ? op : ncclSum, sum, element);
      }
    }
    if (op == ncclAvg && IsInteger(type)) {
      const Number total = Load(type, sum);
      const uint64_t mean = Signed(type) ? static_cast<uint64_t>(static_cast<int64_t>(total.integer) / n)
                                         : total.integer / static_cast<uint64_t>(n);
      Store(type, {mean, 0}, sum);
    }
    std::memcpy(&result[i], sum, size);
  }
  return result;
}

Bytes Slice(const Bytes& bytes, size_t begin, size_t size) {
  return Bytes(bytes.begin() + static_cast<ptrdiff_t>(begin), bytes.begin() + static_cast<ptrdiff_t>(begin + size));
}

std::vector<Bytes> Contributions(int type, int nranks, size_t count, uint64_t seed) {
  std::vector<Bytes> all(nranks);
  for (int r = 0; r < nranks; ++r) Fill(type, r, count, &all[r], seed);
  return all;
}

struct Case {
  const World& world;
  Rank& rank;
  int type;
  size_t count;
  bool in_place;
  ncclDataType_t nccl_type() const { return static_cast<ncclDataType_t>(type); }
  size_t bytes() const { return count * kSizes[type]; }
  std::string Name(const char* what) const {
    return std::string(what) + " " + kTypeNames[type] + " x " + std::to_string(count) + (in_place ? " in place" : "");
  }
};

void CheckReductions(const Case& c, ncclRedOp_t op, int reference, const std::vector<Bytes>* scalars) {
  const int n = c.world.nranks;
  const int me = c.world.rank;
  const std::vector<Bytes> all = Contributions(c.type, n, c.count, 1);
  const Bytes want = Reduced(c.type, reference, all, scalars);
  Memory send(all[me]);
  Memory receive(c.bytes());
  void* out = c.in_place ? send.get() : receive.get();
  EXPECT_EQ(ncclSuccess, ncclAllReduce(send.get(), out, c.count, c.nccl_type(), op, c.rank.comm, c.rank.stream));
  c.rank.Sync();
  EXPECT_EQ(want, (c.in_place ? send : receive).Read()) << c.Name("AllReduce") << " op " << reference;

  const int root = n - 1;
  Memory again(all[me]);
  Memory at_root(c.bytes());
  out = c.in_place ? again.get() : me == root ? at_root.get() : nullptr;
  EXPECT_EQ(ncclSuccess, ncclReduce(again.get(), out, c.count, c.nccl_type(), op, root, c.rank.comm, c.rank.stream));
  c.rank.Sync();
  if (me == root) {
    EXPECT_EQ(want, (c.in_place ? again : at_root).Read()) << c.Name("Reduce") << " op " << reference;
  }

  const std::vector<Bytes> blocks = Contributions(c.type, n, c.count * n, 2);
  const Bytes scattered = Reduced(c.type, reference, blocks, scalars);
  Memory whole(blocks[me]);
  Memory part(c.bytes());
  out = c.in_place ? whole.at(me * c.bytes()) : part.get();
  EXPECT_EQ(ncclSuccess, ncclReduceScatter(whole.get(), out, c.count, c.nccl_type(), op, c.rank.comm, c.rank.stream));
  c.rank.Sync();
  const Bytes got = c.in_place ? Slice(whole.Read(), me * c.bytes(), c.bytes()) : part.Read();
  EXPECT_EQ(Slice(scattered, me * c.bytes(), c.bytes()), got) << c.Name("ReduceScatter") << " op " << reference;
}

Bytes Joined(const std::vector<Bytes>& parts) {
  Bytes joined;
  for (const Bytes& part : parts) joined.insert(joined.end(), part.begin(), part.end());
  return joined;
}

void CheckMoves(const Case& c) {
  const int n = c.world.nranks;
  const int me = c.world.rank;
  const int root = 1 % n;
  const size_t size = c.bytes();
  const ncclDataType_t type = c.nccl_type();
  const std::vector<Bytes> all = Contributions(c.type, n, c.count, 3);
  const std::vector<Bytes> blocks = Contributions(c.type, n, c.count * n, 4);
  ncclComm_t comm = c.rank.comm;
  CUstream stream = c.rank.stream;

  Memory broadcast(all[me]);
  Memory other(size);
  void* out = c.in_place ? broadcast.get() : other.get();
  EXPECT_EQ(ncclSuccess, ncclBroadcast(broadcast.get(), out, c.count, type, root, comm, stream));
  Memory bcast(all[me]);
  EXPECT_EQ(ncclSuccess, ncclBcast(bcast.get(), c.count, type, root, comm, stream));
  Memory gathered(size * n);
  Memory mine(all[me]);
  Memory in_gathered(size * n);
  std::memcpy(in_gathered.at(me * size), all[me].data(), size);
  Memory& gather_out = c.in_place ? in_gathered : gathered;
  const void* gather_in = c.in_place ? in_gathered.at(me * size) : mine.get();
  EXPECT_EQ(ncclSuccess, ncclAllGather(gather_in, gather_out.get(), c.count, type, comm, stream));
  c.rank.Sync();
  EXPECT_EQ(all[root], (c.in_place ? broadcast : other).Read()) << c.Name("Broadcast");
  EXPECT_EQ(all[root], bcast.Read()) << c.Name("Bcast");
  EXPECT_EQ(Joined(all), gather_out.Read()) << c.Name("AllGather");

#if NCCL_VERSION_CODE >= 22803
  Memory exchange(blocks[me]);
  Memory exchanged(size * n);
  EXPECT_EQ(ncclSuccess, ncclAlltoAll(exchange.get(), exchanged.get(), c.count, type, comm, stream));
  Memory at_root(size * n);
  EXPECT_EQ(ncclSuccess, ncclGather(mine.get(), at_root.get(), c.count, type, root, comm, stream));
  Memory from_root(size);
  EXPECT_EQ(ncclSuccess, ncclScatter(exchange.get(), from_root.get(), c.count, type, root, comm, stream));
  c.rank.Sync();
  Bytes want;
  for (int r = 0; r < n; ++r) {
    const Bytes part = Slice(blocks[r], me * size, size);
    want.insert(want.end(), part.begin(), part.end());
  }
  EXPECT_EQ(want, exchanged.Read()) << c.Name("AlltoAll");
  if (me == root) {
    EXPECT_EQ(Joined(all), at_root.Read()) << c.Name("Gather");
  }
  EXPECT_EQ(Slice(blocks[root], me * size, size), from_root.Read()) << c.Name("Scatter");
#endif
}

void CheckType(const World& world, Rank& rank, int type, size_t count) {
  for (const bool in_place : {false, true}) {
    const Case c{world, rank, type, count, in_place};
    for (int op = ncclSum; op <= ncclAvg; ++op) CheckReductions(c, static_cast<ncclRedOp_t>(op), op, nullptr);
    CheckMoves(c);
  }
  // Each rank with a scalar of its own; on odd ranks it is read when the kernel runs.
  std::vector<Bytes> scalars;
  for (int r = 0; r < world.nranks; ++r) scalars.push_back(Scalar(type, r + 2));
  Bytes own = scalars[world.rank];
  Memory on_device(own);
  ncclRedOp_t op{};
  const bool immediate = world.rank % 2 == 0;
  ASSERT_EQ(ncclSuccess,
            ncclRedOpCreatePreMulSum(&op, immediate ? own.data() : on_device.get(), static_cast<ncclDataType_t>(type),
                                     immediate ? ncclScalarHostImmediate : ncclScalarDevice, rank.comm));
  CheckReductions({world, rank, type, count, false}, op, ncclSum, &scalars);
  EXPECT_EQ(ncclSuccess, ncclRedOpDestroy(op, rank.comm));
}

SOFTGPU_BODY(AllTypesSmall) {
  Rank rank(world);
  for (int type = 0; type < kTypes; ++type) {
    for (const size_t count : {1, 7, 130}) CheckType(world, rank, type, count);
  }
  rank.Destroy();
}

// A little more than one stage of shared memory; the arithmetic of all reductions is checked by the small ones.
SOFTGPU_BODY(AllTypesLarge) {
  Rank rank(world);
  for (int type = 0; type < kTypes; ++type) {
    const Case c{world, rank, type, 70007 / kSizes[type] + 3, type % 2 == 0};
    const int op = type % 3 == 0 ? ncclAvg : ncclSum;
    CheckReductions(c, static_cast<ncclRedOp_t>(op), op, nullptr);
    CheckMoves(c);
  }
  rank.Destroy();
}

class Correctness : public ::testing::TestWithParam<int> {};

TEST_P(Correctness, SmallAsThreads) { RunThreads(GetParam(), AllTypesSmall); }
TEST_P(Correctness, SmallAsProcesses) { RunProcesses(GetParam(), "AllTypesSmall"); }
INSTANTIATE_TEST_SUITE_P(Ranks, Correctness, ::testing::Values(1, 2, 3, 4, 8));

TEST(CorrectnessOfLargeOnes, Threads) { RunThreads(3, AllTypesLarge); }
TEST(CorrectnessOfLargeOnes, Processes) { RunProcesses(4, "AllTypesLarge"); }

// Every value of the narrow types, through a reduction that must return it, and through a product with one.
TEST(Correctness, EveryValueOfTheNarrowTypes) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    for (const int type : {6, 9, 10, 11}) {
      const size_t count = size_t{1} << (8 * kSizes[type]);
      Bytes values(count * kSizes[type]);
      for (size_t i = 0; i < count; ++i) std::memcpy(&values[i * kSizes[type]], &i, kSizes[type]);
      std::vector<Bytes> all(2, values);
      std::reverse(all[1].begin(), all[1].end());
      for (const int op : {ncclSum, ncclProd}) {
        Memory memory(all[world.rank]);
        ASSERT_EQ(ncclSuccess, ncclAllReduce(memory.get(), memory.get(), count, static_cast<ncclDataType_t>(type),
                                             static_cast<ncclRedOp_t>(op), rank.comm, rank.stream));
        rank.Sync();
        const Bytes want = Reduced(type, op, all, nullptr);
        const Bytes got = memory.Read();
        for (size_t i = 0; i < count; ++i) {
          const uint8_t* w = &want[i * kSizes[type]];
          const uint8_t* g = &got[i * kSizes[type]];
          if (std::isnan(Load(type, w).real) && std::isnan(Load(type, g).real)) continue;
          ASSERT_EQ(0, std::memcmp(w, g, kSizes[type])) << kTypeNames[type] << " op " << op << " element " << i;
        }
      }
    }
    rank.Destroy();
  });
}

TEST(Correctness, NothingIsDoneForNothing) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    // One rank more often than the other: calls with nothing to do are no kernels, nobody waits for them.
    for (int i = 0; i <= world.rank; ++i) {
      EXPECT_EQ(ncclSuccess, ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, rank.comm, rank.stream));
      EXPECT_EQ(ncclSuccess, ncclBroadcast(nullptr, nullptr, 0, ncclFloat32, 0, rank.comm, rank.stream));
    }
    EXPECT_TRUE(rank.DoneWithin(kSoon));
    rank.Destroy();
  });
}

TEST(Correctness, BytesAreBytes) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    Memory send(Bytes{1, 2, 3, static_cast<uint8_t>(world.rank)});
    Memory receive(8);
    // Four int8 here, one float32 there: AllGather moves bytes, NCCL accepts it.
    if (world.rank == 0) {
      EXPECT_EQ(ncclSuccess, ncclAllGather(send.get(), receive.get(), 4, ncclInt8, rank.comm, rank.stream));
    } else {
      EXPECT_EQ(ncclSuccess, ncclAllGather(send.get(), receive.get(), 1, ncclFloat32, rank.comm, rank.stream));
    }
    rank.Sync();
    EXPECT_EQ((Bytes{1, 2, 3, 0, 1, 2, 3, 1}), receive.Read());
    rank.Destroy();
  });
}

}  // namespace
}  // namespace softgpu::checks
