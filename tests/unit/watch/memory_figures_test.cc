#include "watchdog/watch/process/memory_figures.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace ncclwatch::watch {
namespace {

struct Box {
  alignas(format::kPage) char bytes[2 * format::kPage + format::kWordsBytes] = {};
  format::Header* header = new (bytes) format::Header();
  format::Words* words = reinterpret_cast<format::Words*>(bytes + 2 * format::kPage);
};
static_assert(sizeof(format::Header) <= 2 * format::kPage);

TEST(MemoryFigures, SayWhatIsResident) {
  const auto box = std::make_unique<Box>();
  box->header->words = {2 * format::kPage, format::kWordsBytes, 1, format::kWordsBytes};
  MemoryFigures figures(box->header);
  figures.Update(7);
  const std::uint64_t before = box->words->resident_bytes;
  EXPECT_EQ(box->words->memory_at_ns.load(), 7);
  EXPECT_GT(before, std::uint64_t{1} << 20);
  EXPECT_GT(box->words->available_bytes, 0u);
  constexpr std::size_t kMore = 64 << 20;
  const auto more = std::make_unique<char[]>(kMore);
  std::memset(more.get(), 1, kMore);
  figures.Update(8);
  EXPECT_GE(box->words->resident_bytes + (1 << 20), before + kMore);
}

TEST(MemoryFigures, ABoxWithoutWordsIsLeftAlone) {
  const auto box = std::make_unique<Box>();
  MemoryFigures figures(box->header);
  figures.Update(7);
  EXPECT_EQ(box->words->memory_at_ns.load(), 0);
}

}  // namespace
}  // namespace ncclwatch::watch
