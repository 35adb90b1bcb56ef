// The section of last words: what was written is read, torn and foreign entries are not, older boxes have none.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/reader/box.h"
#include "tests/unit/support/job_builder.h"

namespace ncclwatch::testing {
namespace {

namespace fs = std::filesystem;
using reader::BoxImage;

reader::Words SampleWords() {
  reader::Words words;
  words.catching = true;
  words.signals.push_back({100,
                           0x10,
                           0x7ffe0000,
                           SIGSEGV,
                           1,
                           0,
                           4711,
                           format::kSignalHandled,
                           "train",
                           {{0x401234, 0x1234, "/app/train"}, {0x7f0000001000, 0, ""}}});
  words.exceptions.push_back({200, format::Language::kCpp, 4711, "St13runtime_error", "no batch", ""});
  words.exceptions.push_back({300, format::Language::kPython, 4711, "ValueError", "no batch", "train.py:12 in step"});
  for (int i = 0; i < 10; ++i) words.allocations.push_back({400 + i, 0, std::uint64_t{1} << i, 7, 1000, 1, 2, 0, 4711});
  for (int i = 0; i < 11; ++i)
    words.errors.push_back({500 + i, 9, functions::Function::ncclAllReduce, 1, 2, 3, 4711, i == 1, "why"});
  for (int i = 0; i < 70; ++i)
    words.misuses.push_back({.at_ns = 510,
                             .site = 0x401234,
                             .value = i,
                             .limit = 4,
                             .times = 2,
                             .wrong = format::Wrong::kRankOutOfRange,
                             .function = functions::Function::MPI_Send,
                             .result = format::kNoResult,
                             .site_name = i == 0 ? "/app/train+0x1234" : "",
                             .made_at_name = ""});
  return words;
}

std::vector<char> Bytes() {
  Job job(1);
  job.Box(0).words = SampleWords();
  return BoxBytes(job.Snapshot().boxes[0]);
}

format::Words* WordsOf(std::vector<char>* bytes) {
  auto* header = reinterpret_cast<format::Header*>(bytes->data());
  return reinterpret_cast<format::Words*>(bytes->data() + header->words.offset);
}

BoxImage Read(const std::vector<char>& bytes) {
  const std::string path = fs::temp_directory_path() / ("ncclwatch-words-" + std::to_string(::getpid()) + ".box");
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  auto read = reader::ReadBox(path);
  fs::remove(path);
  if (const auto* failure = std::get_if<reader::Failure>(&read)) ADD_FAILURE() << failure->reason;
  return std::holds_alternative<BoxImage>(read) ? std::get<BoxImage>(std::move(read)) : BoxImage{};
}

TEST(Words, AreReadAsTheyWereWritten) {
  const reader::Words words = Read(Bytes()).words;
  EXPECT_TRUE(words.catching);
  ASSERT_EQ(words.signals.size(), 1u);
  const reader::FatalSignal& signal = words.signals[0];
  EXPECT_EQ(signal.signal, SIGSEGV);
  EXPECT_EQ(signal.fault_address, 0x10u);
  EXPECT_EQ(signal.flags, format::kSignalHandled);
  EXPECT_EQ(signal.thread_name, "train");
  ASSERT_EQ(signal.frames.size(), 2u);
  EXPECT_EQ(reader::FrameText(signal.frames[0]), "train+0x1234");
  EXPECT_EQ(reader::FrameText(signal.frames[1]), "0x7f0000001000");
  ASSERT_EQ(words.exceptions.size(), 2u);
  EXPECT_EQ(words.exceptions[0].type, "std::runtime_error");
  EXPECT_EQ(words.exceptions[1].type, "ValueError");
  EXPECT_EQ(words.exceptions[1].place, "train.py:12 in step");
}

TEST(Words, TheNewestAllocationsAndTheFirstErrorsAreKept) {
  const reader::Words words = Read(Bytes()).words;
  ASSERT_EQ(words.allocations.size(), format::kFailedAllocations);
  EXPECT_EQ(words.allocations.front().at_ns, 402);
  EXPECT_EQ(words.allocations.back().bytes, 512u);
  std::vector<std::int64_t> at;
  for (const reader::NcclError& error : words.errors) at.push_back(error.at_ns);
  EXPECT_EQ(at, (std::vector<std::int64_t>{500, 501, 502, 503, 507, 508, 509, 510}));
  EXPECT_TRUE(words.errors[1].asynchronous);
  EXPECT_FALSE(words.errors[0].asynchronous);
  EXPECT_EQ(words.errors[0].text, "why");
}

TEST(Words, TheFirstMisusesAreKept) {
  const reader::Words words = Read(Bytes()).words;
  ASSERT_EQ(words.misuses.size(), format::kMisuses);
  EXPECT_EQ(words.misuses_lost, 6u);
  EXPECT_EQ(words.misuses[0].wrong, format::Wrong::kRankOutOfRange);
  EXPECT_EQ(words.misuses[0].site_name, "/app/train+0x1234");
  EXPECT_EQ(words.misuses[63].value, 63);
}

TEST(Words, OfOlderWritersSayNothingOfMisuses) {
  std::vector<char> bytes = Bytes();
  auto* header = reinterpret_cast<format::Header*>(bytes.data());
  header->words.entry_bytes = format::kWordsBytesWithoutMisuses;
  const reader::Words words = Read(bytes).words;
  EXPECT_TRUE(words.misuses.empty());
  EXPECT_EQ(words.signals.size(), 1u);
}

TEST(Words, MisusesThatAreNotKnownOrWereTakenBackAreLeftOut) {
  std::vector<char> bytes = Bytes();
  WordsOf(&bytes)->misuses[0].wrong = 0;
  WordsOf(&bytes)->misuses[1].wrong = 99999;
  EXPECT_EQ(Read(bytes).words.misuses.size(), format::kMisuses - 2);
}

TEST(Words, TornEntriesAreLeftOut) {
  std::vector<char> bytes = Bytes();
  WordsOf(&bytes)->signals[0].commit = 0;
  WordsOf(&bytes)->exceptions[1].commit = 3;  // an entry of the other slot
  const reader::Words words = Read(bytes).words;
  EXPECT_TRUE(words.signals.empty());
  EXPECT_EQ(words.exceptions.size(), 1u);
}

TEST(Words, HostileEntriesDoNoHarm) {
  std::vector<char> bytes = Bytes();
  format::Words* words = WordsOf(&bytes);
  words->signals[0].frames = 0xffffffff;
  words->signals[0].frame[0].module = 0xfffffff0;
  std::memset(words->signals[0].thread_name, 'x', sizeof words->signals[0].thread_name);
  const std::string doubling = "_ZN1aISt4pairI" + std::string(20, 'S') + "S_S_S0_S0_S1_S1_S2_S2_S3_S3_S4_S4_S5_S5_EE";
  std::memcpy(words->exceptions[0].type, doubling.c_str(), doubling.size() + 1);
  const reader::Words read = Read(bytes).words;
  ASSERT_EQ(read.signals.size(), 1u);
  EXPECT_EQ(read.signals[0].frames.size(), format::kFrames);
  EXPECT_EQ(read.signals[0].thread_name.size(), 16u);
  EXPECT_EQ(read.exceptions[0].type, doubling);
}

TEST(Words, BoxesOfOlderWritersHaveNone) {
  std::vector<char> bytes = Bytes();
  reinterpret_cast<format::Header*>(bytes.data())->words = {};
  const BoxImage image = Read(bytes);
  EXPECT_EQ(image.rank, 0);
  EXPECT_TRUE(image.words.signals.empty());
  EXPECT_FALSE(image.words.catching);
}

TEST(Words, WhatWasSaidLaterIsTakenBack) {
  reader::Words words = SampleWords();
  words.allocations[0].recovered_ns = 450;
  EXPECT_EQ(reader::LastSaid(words), 510);
  reader::RollBack(402, &words);
  EXPECT_EQ(words.exceptions.size(), 2u);
  EXPECT_EQ(words.allocations.size(), 3u);
  EXPECT_EQ(words.allocations[0].recovered_ns, 0);
  EXPECT_TRUE(words.errors.empty());
  EXPECT_TRUE(words.misuses.empty());
}

}  // namespace
}  // namespace ncclwatch::testing
