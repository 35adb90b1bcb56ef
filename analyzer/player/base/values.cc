#include "analyzer/player/base/values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "ncclwatch/functions/types.h"

namespace ncclwatch::player {
namespace {

constexpr int kPeriod = 5;
using Expected = std::array<double, kPeriod>;  // by index of the element, modulo

enum class Form { kSigned, kUnsigned, kFloat, kHalf, kBfloat, kE4m3, kE5m2, kNone };
struct Type {
  Form form = Form::kNone;
  std::size_t bytes = 0;
};

Type TypeOf(std::uint8_t dtype) {
  constexpr Type kNccl[] = {{Form::kSigned, 1}, {Form::kUnsigned, 1}, {Form::kSigned, 4}, {Form::kUnsigned, 4},
                            {Form::kSigned, 8}, {Form::kUnsigned, 8}, {Form::kHalf, 2},   {Form::kFloat, 4},
                            {Form::kFloat, 8},  {Form::kBfloat, 2},   {Form::kE4m3, 1},   {Form::kE5m2, 1}};
  if (dtype < std::size(kNccl)) return kNccl[dtype];
  struct Named {
    std::string_view name;
    Type type;
  };
  constexpr Named kMpi[] = {{"MPI_SIGNED_CHAR", {Form::kSigned, 1}},
                            {"MPI_UNSIGNED_CHAR", {Form::kUnsigned, 1}},
                            {"MPI_SHORT", {Form::kSigned, 2}},
                            {"MPI_UNSIGNED_SHORT", {Form::kUnsigned, 2}},
                            {"MPI_INT", {Form::kSigned, 4}},
                            {"MPI_UNSIGNED", {Form::kUnsigned, 4}},
                            {"MPI_LONG", {Form::kSigned, 8}},
                            {"MPI_UNSIGNED_LONG", {Form::kUnsigned, 8}},
                            {"MPI_LONG_LONG", {Form::kSigned, 8}},
                            {"MPI_UNSIGNED_LONG_LONG", {Form::kUnsigned, 8}},
                            {"MPI_FLOAT", {Form::kFloat, 4}},
                            {"MPI_DOUBLE", {Form::kFloat, 8}},
                            {"MPI_INT8_T", {Form::kSigned, 1}},
                            {"MPI_INT16_T", {Form::kSigned, 2}},
                            {"MPI_INT32_T", {Form::kSigned, 4}},
                            {"MPI_INT64_T", {Form::kSigned, 8}},
                            {"MPI_UINT8_T", {Form::kUnsigned, 1}},
                            {"MPI_UINT16_T", {Form::kUnsigned, 2}},
                            {"MPI_UINT32_T", {Form::kUnsigned, 4}},
                            {"MPI_UINT64_T", {Form::kUnsigned, 8}},
                            {"MPI_INTEGER", {Form::kSigned, 4}},
                            {"MPI_REAL", {Form::kFloat, 4}},
                            {"MPI_DOUBLE_PRECISION", {Form::kFloat, 8}},
                            {"MPI_AINT", {Form::kSigned, 8}},
                            {"MPI_OFFSET", {Form::kSigned, 8}},
                            {"MPI_COUNT", {Form::kSigned, 8}}};
  const std::string_view name = functions::DatatypeName(dtype);
  for (const Named& one : kMpi)
    if (one.name == name) return one.type;
  return {};
}

// Whole numbers up to here are exact.
double ExactUpTo(const Type& type) {
  switch (type.form) {
    case Form::kSigned: return std::ldexp(1, static_cast<int>(type.bytes) * 8 - 1) - 1;
    case Form::kUnsigned: return std::ldexp(1, static_cast<int>(type.bytes) * 8) - 1;
    case Form::kFloat: return type.bytes == 4 ? 1 << 24 : std::ldexp(1, 53);
    case Form::kHalf: return 2048;
    case Form::kBfloat: return 256;
    case Form::kE4m3: return 16;
    case Form::kE5m2: return 8;
    case Form::kNone: return 0;
  }
  return 0;
}

// A number as a short floating-point type: exponent and mantissa of so many bits. Small whole numbers alone.
std::uint32_t Encode(double value, int exponent_bits, int mantissa_bits) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto mantissa = static_cast<std::uint32_t>(std::ldexp(fraction * 2 - 1, mantissa_bits));
  return static_cast<std::uint32_t>(exponent - 1 + bias) << mantissa_bits | mantissa;
}

double Decode(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const double mantissa = std::ldexp(bits & ((1u << mantissa_bits) - 1), -mantissa_bits);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1 + mantissa, exponent - bias);
  return (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -value : value;
}

struct Short {
  int exponent, mantissa;
};
Short ShortOf(Form form) {
  switch (form) {
    case Form::kHalf: return {5, 10};
    case Form::kBfloat: return {8, 7};
    case Form::kE4m3: return {4, 3};
    default: return {5, 2};
  }
}

template <class T>
void Store(void* at, double value) {
  const T number = static_cast<T>(value);
  std::memcpy(at, &number, sizeof number);
}

void Put(const Type& type, void* at, double value) {
  switch (type.form) {
    case Form::kSigned:
    case Form::kUnsigned:  // small and never negative
      if (type.bytes == 1) return Store<std::uint8_t>(at, value);
      if (type.bytes == 2) return Store<std::uint16_t>(at, value);
      if (type.bytes == 4) return Store<std::uint32_t>(at, value);
      return Store<std::uint64_t>(at, value);
    case Form::kFloat: return type.bytes == 4 ? Store<float>(at, value) : Store<double>(at, value);
    case Form::kNone: return;
    default: break;
  }
  const Short form = ShortOf(type.form);
  const std::uint32_t bits = Encode(value, form.exponent, form.mantissa);
  type.bytes == 1 ? Store<std::uint8_t>(at, bits) : Store<std::uint16_t>(at, bits);
}

template <class T>
double Load(const void* at) {
  T number;
  std::memcpy(&number, at, sizeof number);
  return static_cast<double>(number);
}

double Get(const Type& type, const void* at) {
  const bool is_signed = type.form == Form::kSigned;
  switch (type.form) {
    case Form::kSigned:
    case Form::kUnsigned:
      if (type.bytes == 1) return is_signed ? Load<std::int8_t>(at) : Load<std::uint8_t>(at);
      if (type.bytes == 2) return is_signed ? Load<std::int16_t>(at) : Load<std::uint16_t>(at);
      if (type.bytes == 4) return is_signed ? Load<std::int32_t>(at) : Load<std::uint32_t>(at);
      return is_signed ? Load<std::int64_t>(at) : Load<std::uint64_t>(at);
    case Form::kFloat: return type.bytes == 4 ? Load<float>(at) : Load<double>(at);
    case Form::kNone: return 0;
    default: break;
  }
  const Short form = ShortOf(type.form);
  const double bits = type.bytes == 1 ? Load<std::uint8_t>(at) : Load<std::uint16_t>(at);
  return Decode(static_cast<std::uint32_t>(bits), form.exponent, form.mantissa);
}

enum class Reduces { kSum, kProduct, kMax, kMin, kAverage, kAnd, kOr, kXor, kBitAnd, kBitOr, kBitXor };
std::optional<Reduces> ReducesOf(std::uint8_t reduction) {
  constexpr Reduces kNccl[] = {Reduces::kSum, Reduces::kProduct, Reduces::kMax, Reduces::kMin, Reduces::kAverage};
  if (reduction < std::size(kNccl)) return kNccl[reduction];
  constexpr std::pair<std::string_view, Reduces> kMpi[] = {
      {"MPI_SUM", Reduces::kSum},    {"MPI_PROD", Reduces::kProduct}, {"MPI_MAX", Reduces::kMax},
      {"MPI_MIN", Reduces::kMin},    {"MPI_LAND", Reduces::kAnd},     {"MPI_LOR", Reduces::kOr},
      {"MPI_LXOR", Reduces::kXor},   {"MPI_BAND", Reduces::kBitAnd},  {"MPI_BOR", Reduces::kBitOr},
      {"MPI_BXOR", Reduces::kBitXor}};
  const std::string_view name = functions::ReductionName(reduction);
  for (const auto& [known, reduces] : kMpi)
    if (known == name) return reduces;
  return std::nullopt;
}

int Value(Reduces reduces, int rank, int place) {
  const int sum = (rank % kPeriod + place) % kPeriod;
  if (reduces == Reduces::kProduct) return rank < kPeriod && sum == 0 ? 2 : 1;
  return sum;
}

double Combine(Reduces reduces, double one, int other) {
  const auto bits = static_cast<std::uint64_t>(one), more = static_cast<std::uint64_t>(other);
  switch (reduces) {
    case Reduces::kSum:
    case Reduces::kAverage: return one + other;
    case Reduces::kProduct: return one * other;
    case Reduces::kMax: return std::max<double>(one, other);
    case Reduces::kMin: return std::min<double>(one, other);
    case Reduces::kAnd: return one != 0 && other != 0 ? 1 : 0;
    case Reduces::kOr: return one != 0 || other != 0 ? 1 : 0;
    case Reduces::kXor: return (one != 0) != (other != 0) ? 1 : 0;
    case Reduces::kBitAnd: return static_cast<double>(bits & more);
    case Reduces::kBitOr: return static_cast<double>(bits | more);
    case Reduces::kBitXor: return static_cast<double>(bits ^ more);
  }
  return 0;
}

Expected ExpectedOf(Reduces reduces, int ranks) {
  Expected expected{};
  const bool logical = reduces == Reduces::kAnd || reduces == Reduces::kOr || reduces == Reduces::kXor;
  for (int place = 0; place < kPeriod; ++place) {
    double& at = expected[static_cast<std::size_t>(place)];
    at = Value(reduces, 0, place);
    for (int rank = 1; rank < ranks; ++rank) at = Combine(reduces, at, Value(reduces, rank, place));
    if (logical && ranks > 1) at = at != 0 ? 1 : 0;
    if (reduces == Reduces::kAverage) at /= ranks;
  }
  return expected;
}

unsigned char ByteOf(int rank, std::uint64_t i) {
  return static_cast<unsigned char>(static_cast<std::uint64_t>(rank) * 131 + i * 7 + (i >> 8));
}

}  // namespace

void FillBytes(void* buffer, std::size_t bytes, int rank, std::uint64_t first) {
  auto* const at = static_cast<unsigned char*>(buffer);
  for (std::size_t i = 0; i < bytes; ++i) at[i] = ByteOf(rank, first + i);
}

bool BytesAre(const void* buffer, std::size_t bytes, int rank, std::uint64_t first) {
  const auto* const at = static_cast<const unsigned char*>(buffer);
  for (std::size_t i = 0; i < bytes; ++i)
    if (at[i] != ByteOf(rank, first + i)) return false;
  return true;
}

std::size_t NumberBytes(std::uint8_t dtype) { return TypeOf(dtype).bytes; }

void FillNumbers(void* buffer, std::size_t count, std::uint8_t dtype, std::uint8_t reduction, int rank,
                 std::uint64_t first) {
  const Type type = TypeOf(dtype);
  const Reduces reduces = ReducesOf(reduction).value_or(Reduces::kSum);
  auto* const at = static_cast<char*>(buffer);
  for (std::size_t i = 0; i < count; ++i)
    Put(type, at + i * type.bytes, Value(reduces, rank, static_cast<int>((first + i) % kPeriod)));
}

Listener::Data CheckReduced(const void* buffer, std::size_t count, std::uint8_t dtype, std::uint8_t reduction,
                            int ranks, std::uint64_t first) {
  const Type type = TypeOf(dtype);
  const auto reduces = ReducesOf(reduction);
  if (type.form == Form::kNone || !reduces) return Listener::Data::kNotChecked;
  const bool adds = *reduces == Reduces::kSum || *reduces == Reduces::kAverage;
  if (adds && static_cast<double>(kPeriod - 1) * ranks > ExactUpTo(type)) return Listener::Data::kNotChecked;
  const bool whole = type.form == Form::kSigned || type.form == Form::kUnsigned;
  const Expected expected = ExpectedOf(*reduces, ranks);
  const auto* const at = static_cast<const char*>(buffer);
  for (std::size_t i = 0; i < count; ++i) {
    const double must = expected[(first + i) % kPeriod], is = Get(type, at + i * type.bytes);
    // An average may be rounded before it is added up, or cut to a whole number.
    const double off = *reduces == Reduces::kAverage ? (whole ? 1 : (type.bytes == 1 ? 0.3 : 0.1) * must) : 0;
    if (!(std::abs(is - must) <= off)) return Listener::Data::kWrong;
  }
  return Listener::Data::kRight;
}

}  // namespace ncclwatch::player
