// The registers of one frame by their DWARF numbers. Of a thread that sleeps on untouched only some are known.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace ncclwatch::stacks {

inline constexpr unsigned kRegisters = 34;  // x86-64 uses 0 to 16, aarch64 0 to 31

class Registers {
 public:
  std::optional<std::uint64_t> Get(unsigned number) const {
    if (number >= kRegisters || !known_[number]) return std::nullopt;
    return values_[number];
  }
  void Set(unsigned number, std::uint64_t value) {
    if (number >= kRegisters) return;
    values_[number] = value;
    known_[number] = true;
  }
  void Forget(unsigned number) {
    if (number < kRegisters) known_[number] = false;
  }

  std::uint64_t pc = 0;

 private:
  std::array<std::uint64_t, kRegisters> values_{};
  std::array<bool, kRegisters> known_{};
};

}  // namespace ncclwatch::stacks
