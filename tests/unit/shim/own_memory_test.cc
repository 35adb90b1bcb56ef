// What is in a piece of this process's memory, and whose it is.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "shim/mpi/core/changed_runs.h"
#include "shim/mpi/core/own_memory.h"

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

TEST(OwnMemory, TheOwnersAreThoseThatNoOtherWindowHas) {
  std::vector<unsigned char> bytes(100);
  Piece memory;
  const std::uint64_t made = WindowsMade();
  NoteWindowMemory(1, bytes.data(), 60);
  ASSERT_TRUE(OnlyOwners(1, &memory));
  EXPECT_EQ(memory.begin, All(bytes).begin);
  EXPECT_EQ(memory.bytes(), 60u);
  NoteWindowMemory(2, bytes.data() + 60, 10);
  EXPECT_TRUE(OnlyOwners(1, &memory));
  NoteWindowMemory(3, bytes.data() + 59, 10);
  EXPECT_FALSE(OnlyOwners(1, &memory));
  EXPECT_FALSE(OnlyOwners(3, &memory));
  NoteWindowMemory(4, bytes.data() + 80, 10, true);
  EXPECT_FALSE(OnlyOwners(4, &memory));
  EXPECT_FALSE(OnlyOwners(5, &memory));
  EXPECT_EQ(WindowsMade(), made + 4);
  for (std::uint64_t window = 1; window <= 4; ++window) ForgetWindowMemory(window);
}

TEST(ChangedRuns, EveryChangedByteAndNoOther) {
  std::vector<unsigned char> before(64, 1), now = before;
  ChangedRuns runs;
  EXPECT_TRUE(runs.Compare(before.data(), now.data(), 64, 0));
  EXPECT_EQ(runs.count(), 0u);
  for (const int at : {0, 1, 2, 7, 9, 31, 32, 63}) now[static_cast<std::size_t>(at)] = 2;
  EXPECT_TRUE(runs.Compare(before.data(), now.data(), 32, 0));
  EXPECT_TRUE(runs.Compare(before.data() + 32, now.data() + 32, 32, 32));
  std::vector<std::pair<std::uint32_t, std::uint32_t>> all;
  for (std::uint32_t i = 0; i < runs.count(); ++i) all.emplace_back(runs[i].begin, runs[i].bytes);
  EXPECT_EQ(all, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 3}, {7, 1}, {9, 1}, {31, 2}, {63, 1}}));
}

TEST(ChangedRuns, ThereIsRoomForSoMany) {
  std::vector<unsigned char> before(4 * format::kMostStores, 1), now = before;
  for (std::size_t at = 0; at < now.size(); at += 2) now[at] = 2;
  ChangedRuns runs;
  EXPECT_FALSE(runs.Compare(before.data(), now.data(), now.size(), 0));
  EXPECT_EQ(runs.count(), format::kMostStores);
  const format::Stored last = runs[format::kMostStores - 1];
  EXPECT_EQ(format::StoredOf(format::PartOf(last)).begin, last.begin);
  EXPECT_EQ(format::StoredOf(format::PartOf(last)).bytes, 1u);
}

}  // namespace
}  // namespace ncclwatch::shim::mpi
