// The narrow floating-point formats of NCCL as conversions from and to float or half, rounding to nearest even.
#ifndef SOFTGPU_NCCL_SMALL_FLOATS_H_
#define SOFTGPU_NCCL_SMALL_FLOATS_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace softgpu {

inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;                                  // NaN, as CUDA makes it
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 65536 or more
  if (magnitude < 0x33000001u) return sign;                                    // at most half of 2^-24
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const int shift = exponent < -14 ? 13 + (-14 - exponent) : 13;
  const uint32_t remainder = mantissa & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  mantissa >>= shift;
  if (remainder > half || (remainder == half && (mantissa & 1))) ++mantissa;
  // A carry out of the mantissa runs into the exponent, which is right in both cases.
  const uint32_t base = exponent < -14 ? 0u : static_cast<uint32_t>(exponent + 14) << 10;
  return static_cast<uint16_t>(sign | (base + mantissa));
}

inline float HalfToFloat(uint16_t value) {
  const uint32_t sign = static_cast<uint32_t>(value & 0x8000u) << 16;
  const uint32_t exponent = (value >> 10) & 0x1fu;
  const uint32_t mantissa = value & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

inline uint16_t FloatToBfloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float BfloatToFloat(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

// One of the two 8-bit formats: `kMantissa` stored bits, `kBias`, and the largest finite pattern. Values out of range
// become the largest finite one (CUDA's __NV_SATFINITE, which is what NCCL's reductions use).
template <int kMantissa, int kBias, uint8_t kLargest, uint8_t kNan>
struct Fp8 {
  static uint8_t FromFloat(float value) {
    const uint8_t sign = std::signbit(value) ? 0x80 : 0;
    if (std::isnan(value)) return kNan;
    const float magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return sign | kLargest;
    int exponent = magnitude == 0 ? 1 - kBias : std::ilogb(magnitude);
    if (exponent < 1 - kBias) exponent = 1 - kBias;
    // Exact: a power of two; the default rounding mode of rint is to nearest even.
    const float steps = std::rint(std::ldexp(magnitude, kMantissa - exponent));
    const int code = (exponent + kBias - 1) * (1 << kMantissa) + static_cast<int>(steps);
    return sign | (code > kLargest ? kLargest : static_cast<uint8_t>(code));
  }
  static float ToFloat(uint8_t value) {
    const uint8_t code = value & 0x7f;
    if (code > kLargest) {
      const bool infinite = kMantissa == 2 && code == 0x7c;
      return std::copysign(infinite ? INFINITY : NAN, value & 0x80 ? -1.0f : 1.0f);
    }
    const int stored = code >> kMantissa;
    const int mantissa = code & ((1 << kMantissa) - 1);
    const float magnitude =
        stored == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissa)
                    : std::ldexp(static_cast<float>(mantissa + (1 << kMantissa)), stored - kBias - kMantissa);
    return value & 0x80 ? -magnitude : magnitude;
  }
};

using Fp8E4m3 = Fp8<3, 7, 0x7e, 0x7f>;
using Fp8E5m2 = Fp8<2, 15, 0x7b, 0x7f>;

}  // namespace softgpu

#endif  // SOFTGPU_NCCL_SMALL_FLOATS_H_
