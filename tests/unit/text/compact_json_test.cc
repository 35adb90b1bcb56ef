#include "core/text/compact_json.h"

#include <gtest/gtest.h>

namespace ncclwatch {
namespace {

TEST(CompactJson, BlanksBetweenPartsGo) {
  EXPECT_EQ(CompactJson(" { \"a b\" :\n[ 1 , -0.5e+3,\ttrue ] , \"c\":{ } }\r\n"),
            R"({"a b":[1,-0.5e+3,true],"c":{}})");
  EXPECT_EQ(CompactJson("null"), "null");
  EXPECT_EQ(CompactJson(R"("\u00e4\"\\ 東京")"), R"("\u00e4\"\\ 東京")");
}

TEST(CompactJson, WhatIsNoneIsNone) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1,]",
                           "[1 2]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{1:2}",
                           "{\"a\":1,}",
                           "nul",
                           "NaN",
                           "Infinity",
                           "01",
                           "1.",
                           ".5",
                           "1e",
                           "+1",
                           "\"",
                           "\"\\\"",
                           "\"\\x\"",
                           "\"\\u12g4\"",
                           "\"a\nb\"",
                           "1 2",
                           "[}",
                           "\"\xff\"",
                           "\"\xed\xa0\x80\"",
                           "'a'"})
    EXPECT_EQ(CompactJson(text), std::nullopt) << text;
}

TEST(CompactJson, DepthIsBounded) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(CompactJson(nested(64)));
  EXPECT_FALSE(CompactJson(nested(100'000)));
}

TEST(CompactJson, NothingInItSteersATerminal) { EXPECT_EQ(CompactJson("\"\x7f\xc2\x9b\""), R"("\u007f\u009b")"); }

}  // namespace
}  // namespace ncclwatch
