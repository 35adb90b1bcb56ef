#include "reduce.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "small_floats.h"

namespace softgpu {
namespace {

// Each element type: how it is stored, and its arithmetic. Narrow floats round to their own type after every step.
template <typename T>
struct Native {
  using Stored = T;
  static constexpr bool kInteger = std::is_integral_v<T>;
  static T Add(T a, T b) {
    if constexpr (kInteger) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
  static T Mul(T a, T b) {
    if constexpr (kInteger) {
      // Through 64 bits: two uint16 or uint8 would be promoted to a signed int that may overflow.
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
  static T Min(T a, T b) {
    if constexpr (kInteger) {
      return a < b ? a : b;
    } else {
      return std::fmin(a, b);
    }
  }
  static T Max(T a, T b) {
    if constexpr (kInteger) {
      return a < b ? b : a;
    } else {
      return std::fmax(a, b);
    }
  }
  static T Divide(T a, uint64_t divisor) { return static_cast<T>(a / static_cast<T>(divisor)); }
};

// float holds sums and products of two 16-bit floats exactly enough that rounding twice equals rounding once.
template <uint16_t (*kFrom)(float), float (*kTo)(uint16_t)>
struct Narrow16 {
  using Stored = uint16_t;
  static constexpr bool kInteger = false;
  static Stored Add(Stored a, Stored b) { return kFrom(kTo(a) + kTo(b)); }
  static Stored Mul(Stored a, Stored b) { return kFrom(kTo(a) * kTo(b)); }
  static Stored Min(Stored a, Stored b) { return kFrom(std::fmin(kTo(a), kTo(b))); }
  static Stored Max(Stored a, Stored b) { return kFrom(std::fmax(kTo(a), kTo(b))); }
};

// NCCL computes 8-bit floats in half precision and rounds the result back.
template <typename Format>
struct Narrow8 {
  using Stored = uint8_t;
  static constexpr bool kInteger = false;
  static Stored FromHalf(float value) { return Format::FromFloat(HalfToFloat(FloatToHalf(value))); }
  static Stored Add(Stored a, Stored b) { return FromHalf(Format::ToFloat(a) + Format::ToFloat(b)); }
  static Stored Mul(Stored a, Stored b) { return FromHalf(Format::ToFloat(a) * Format::ToFloat(b)); }
  static Stored Min(Stored a, Stored b) { return FromHalf(std::fmin(Format::ToFloat(a), Format::ToFloat(b))); }
  static Stored Max(Stored a, Stored b) { return FromHalf(std::fmax(Format::ToFloat(a), Format::ToFloat(b))); }
};

using Half = Narrow16<FloatToHalf, HalfToFloat>;
using Bfloat = Narrow16<FloatToBfloat, BfloatToFloat>;

// Calls f with an object of the element type's arithmetic, in the order of ncclDataType_t.
template <typename F>
void WithType(int datatype, F f) {
  switch (datatype) {
    case 0: return f(Native<int8_t>{});
    case 1: return f(Native<uint8_t>{});
    case 2: return f(Native<int32_t>{});
    case 3: return f(Native<uint32_t>{});
    case 4: return f(Native<int64_t>{});
    case 5: return f(Native<uint64_t>{});
    case 6: return f(Half{});
    case 7: return f(Native<float>{});
    case 8: return f(Native<double>{});
    case 9: return f(Bfloat{});
    case 10: return f(Narrow8<Fp8E4m3>{});
    case 11: return f(Narrow8<Fp8E5m2>{});
    default: return;
  }
}

// Elements are handled in blocks small enough for the first-level cache, so that the accumulator stays there.
constexpr size_t kBlock = 1024;

// User buffers need not be aligned to their element type on the CPU side of the copy.
template <typename T>
T Load(const uint8_t* base, size_t index) {
  T value;
  std::memcpy(&value, base + index * sizeof(T), sizeof(T));
  return value;
}

template <typename Stored, typename Combine>
void Fold(Stored* accumulator, const uint8_t* const* sources, int nsources, size_t first, size_t count,
          Combine combine) {
  std::memcpy(accumulator, sources[0] + first * sizeof(Stored), count * sizeof(Stored));
  for (int s = 1; s < nsources; ++s) {
    const uint8_t* source = sources[s] + first * sizeof(Stored);
    for (size_t i = 0; i < count; ++i) accumulator[i] = combine(accumulator[i], Load<Stored>(source, i));
  }
}

template <typename Type>
void ReduceBlock(typename Type::Stored* accumulator, const uint8_t* const* sources, int nsources, size_t first,
                 size_t count, const Reduction& reduction) {
  using T = typename Type::Stored;
  switch (reduction.kind) {
    case ReductionKind::kProd:
      return Fold(accumulator, sources, nsources, first, count, [](T a, T b) { return Type::Mul(a, b); });
    case ReductionKind::kMin:
      return Fold(accumulator, sources, nsources, first, count, [](T a, T b) { return Type::Min(a, b); });
    case ReductionKind::kMax:
      return Fold(accumulator, sources, nsources, first, count, [](T a, T b) { return Type::Max(a, b); });
    default: Fold(accumulator, sources, nsources, first, count, [](T a, T b) { return Type::Add(a, b); });
  }
  if constexpr (Type::kInteger) {
    if (reduction.kind != ReductionKind::kSumPostDiv) return;
    for (size_t i = 0; i < count; ++i) accumulator[i] = Type::Divide(accumulator[i], reduction.scalar);
  }
}

uint64_t BitsOfReciprocal(int datatype, int nranks) {
  const float reciprocal = static_cast<float>(1.0 / nranks);
  switch (datatype) {
    case 6: return FloatToHalf(reciprocal);
    case 7: return std::bit_cast<uint32_t>(reciprocal);
    case 8: return std::bit_cast<uint64_t>(1.0 / nranks);
    case 9: return FloatToBfloat(reciprocal);
    case 10: return Fp8E4m3::FromFloat(reciprocal);
    default: return Fp8E5m2::FromFloat(reciprocal);
  }
}

}  // namespace

size_t DatatypeSize(int datatype) {
  static constexpr uint8_t kSizes[kNumDatatypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return datatype < 0 || datatype >= kNumDatatypes ? 0 : kSizes[datatype];
}

Reduction BuiltinReduction(int op, int datatype, int nranks) {
  static constexpr ReductionKind kKinds[] = {ReductionKind::kSum, ReductionKind::kProd, ReductionKind::kMax,
                                             ReductionKind::kMin};
  Reduction reduction;
  if (op < 4) {
    reduction.kind = kKinds[op];
    return reduction;
  }
  const bool integer = datatype <= 5;
  reduction.kind = integer ? ReductionKind::kSumPostDiv : ReductionKind::kPreMulSum;
  reduction.scalar = integer ? static_cast<uint64_t>(nranks) : BitsOfReciprocal(datatype, nranks);
  return reduction;
}

void CopyPrepared(void* destination, const void* source, size_t count, int datatype, const Reduction& reduction) {
  if (reduction.kind != ReductionKind::kPreMulSum) {
    if (destination != source) std::memcpy(destination, source, count * DatatypeSize(datatype));
    return;
  }
  WithType(datatype, [&](auto type) {
    using Type = decltype(type);
    using T = typename Type::Stored;
    T scalar;
    std::memcpy(&scalar, reduction.scalar_address ? reduction.scalar_address : &reduction.scalar, sizeof(T));
    const uint8_t* in = static_cast<const uint8_t*>(source);
    uint8_t* out = static_cast<uint8_t*>(destination);
    for (size_t i = 0; i < count; ++i) {
      const T value = Type::Mul(Load<T>(in, i), scalar);
      std::memcpy(out + i * sizeof(T), &value, sizeof(T));
    }
  });
}

void Reduce(void* destination, const uint8_t* const* sources, int nsources, size_t count, int datatype,
            const Reduction& reduction) {
  WithType(datatype, [&](auto type) {
    using Type = decltype(type);
    using T = typename Type::Stored;
    T accumulator[kBlock];
    for (size_t first = 0; first < count; first += kBlock) {
      const size_t n = count - first < kBlock ? count - first : kBlock;
      ReduceBlock<Type>(accumulator, sources, nsources, first, n, reduction);
      std::memcpy(static_cast<uint8_t*>(destination) + first * sizeof(T), accumulator, n * sizeof(T));
    }
  });
}

}  // namespace softgpu
