// Chance from a seed. Chance answers the same question with the same number whenever it is asked, so that a job can be
// worked out in any order; Dice answers in turn.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ncclwatch::simulation {

constexpr std::uint64_t Scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : seed_(Scramble(seed)) {}
  std::uint64_t Bits(std::uint64_t what, std::uint64_t a = 0, std::uint64_t b = 0) const {
    return Scramble(Scramble(Scramble(seed_ ^ what) ^ a) ^ b);
  }
  // In [0, 1).
  double Unit(std::uint64_t what, std::uint64_t a = 0, std::uint64_t b = 0) const {
    return static_cast<double>(Bits(what, a, b) >> 11) * 0x1p-53;
  }
  std::int64_t Between(std::int64_t low, std::int64_t high, std::uint64_t what, std::uint64_t a = 0,
                       std::uint64_t b = 0) const {
    return low + static_cast<std::int64_t>(Unit(what, a, b) * static_cast<double>(high - low));
  }

 private:
  std::uint64_t seed_;
};

class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t what) : chance_(seed), what_(what) {}
  double Unit() { return chance_.Unit(what_, ++rolls_); }
  bool OneIn(int n) { return Below(n) == 0; }
  int Below(int n) { return static_cast<int>(Unit() * n); }
  std::int64_t Between(std::int64_t low, std::int64_t high) { return chance_.Between(low, high, what_, ++rolls_); }
  template <typename T>
  const T& Of(const T* from, std::size_t count) {
    return from[static_cast<std::size_t>(Below(static_cast<int>(count)))];
  }

 private:
  Chance chance_;
  std::uint64_t what_;
  std::uint64_t rolls_ = 0;
};

}  // namespace ncclwatch::simulation
