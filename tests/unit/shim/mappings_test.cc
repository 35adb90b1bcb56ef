// Which lines of /proc/self/maps a crash keeps, whatever pieces they are read in.
#include <gtest/gtest.h>

#include <string>

#include "shim/crash_handlers/mappings.h"

namespace ncclwatch::shim {
namespace {

const std::string kText =
    "00400000-00401000 r--p 00000000 fe:01 12 /app/train\n"
    "00401000-00402000 r-xp 00001000 fe:01 12 /app/train\n"
    "00402000-00403000 r--p 00002000 fe:01 12 /app/train\n"
    "00403000-00404000 rw-p 00003000 fe:01 12 /app/train\n"
    "7f0000000000-7f0000001000 rw-s 00000000 00:15 3 /dev/shm/box\n"
    "7f0000002000-7f0000003000 r-xp 00000000 00:00 0\n"
    "7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0 [stack]\n"
    "7ffe00000000-7ffe00001000 r-xp 00000000 00:00 0 [vdso]\n";
const std::string kKept =
    "00400000-00401000 r--p 00000000 fe:01 12 /app/train\n"
    "00401000-00402000 r-xp 00001000 fe:01 12 /app/train\n"
    "7f0000002000-7f0000003000 r-xp 00000000 00:00 0\n"
    "7ffe00000000-7ffe00001000 r-xp 00000000 00:00 0 [vdso]\n";

std::string Kept(const std::string& text, std::size_t piece) {
  static MappingFilter filter;
  filter.Begin();
  std::string kept;
  for (std::size_t at = 0; at < text.size(); at += piece)
    filter.Take(text.data() + at, std::min(piece, text.size() - at), [&](const char* line, std::size_t bytes) {
      kept.append(line, bytes);
      return true;
    });
  return kept;
}

TEST(Mappings, CodeAndTheBeginningOfEachFileAreKept) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{64}, kText.size()})
    EXPECT_EQ(Kept(kText, piece), kKept) << piece;
}

TEST(Mappings, ALineThatIsTooLongIsLeftOut) {
  const std::string longest = "00500000-00501000 r-xp 00000000 fe:01 13 /" + std::string(5000, 'x') + "\n";
  EXPECT_EQ(Kept(longest + kText, 512), kKept);
}

TEST(Mappings, NothingComesAfterARefusal) {
  static MappingFilter filter;
  filter.Begin();
  int reported = 0;
  EXPECT_FALSE(filter.Take(kText.data(), kText.size(), [&](const char*, std::size_t) { return ++reported < 2; }));
  EXPECT_EQ(reported, 2);
}

}  // namespace
}  // namespace ncclwatch::shim
