// What is in a piece of this process's memory, and whose it is.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "shim/mpi/own_memory.h"

namespace ncclwatch::shim::mpi {
namespace {

Piece All(const std::vector<unsigned char>& bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  return {begin, begin + bytes.size()};
}

std::uint64_t Hash(const Piece& piece) {
  std::uint64_t hash = 0;
  EXPECT_TRUE(HashOf(piece, &hash));
  return hash;
}

TEST(OwnMemory, AHashTellsEveryByte) {
  for (const std::size_t size : {1u, 7u, 8u, 4095u, 4096u, 4097u, 10000u}) {
    std::vector<unsigned char> bytes(size, 3);
    const std::uint64_t before = Hash(All(bytes));
    EXPECT_EQ(Hash(All(bytes)), before);
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      ++bytes[at];
      EXPECT_NE(Hash(All(bytes)), before) << at << " of " << size;
      --bytes[at];
    }
    EXPECT_EQ(Hash(All(bytes)), before);
  }
}

TEST(OwnMemory, WhatCannotBeReadHasNone) {
  constexpr std::size_t kBytes = 8192;
  void* const memory = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  std::uint64_t hash = 0;
  EXPECT_FALSE(HashOf({begin, begin + kBytes}, &hash));
  munmap(memory, kBytes);
}

TEST(OwnMemory, AWindowsMemoryIsKnownWhileThereIsOne) {
  std::vector<unsigned char> bytes(100);
  const Piece all = All(bytes);
  EXPECT_FALSE(IsWindows(all));
  NoteWindowMemory(7, bytes.data() + 50, 10);
  EXPECT_TRUE(IsWindows(all));
  EXPECT_TRUE(IsWindows({all.begin + 59, all.begin + 60}));
  EXPECT_FALSE(IsWindows({all.begin, all.begin + 50}));
  EXPECT_FALSE(IsWindows({all.begin + 60, all.end}));
  ForgetWindowMemory(7);
  EXPECT_FALSE(IsWindows(all));
}

}  // namespace
}  // namespace ncclwatch::shim::mpi
