#include "analyzer/import/pickle.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/analyzer/import/text_of.h"

namespace ncclwatch::analyzer::import {
namespace {

using namespace std::string_literals;

// What the pickle holds, or why it is refused.
std::string ReadPickle(const std::string& pickle) {
  Tree tree;
  const auto root = ParsePickle(pickle, &tree);
  return root.ok() ? TextOf(tree, *root) : "refused: " + std::string(root.status().message());
}

TEST(Pickle, OfTorch) {
  // As c10d writes it: protocol 2, strings and their second use by number, integers in the shortest form.
  const std::string dump =
      "\x80\x02}(X\x07\0\0\0versionq\0X\x04\0\0\0002.10q\x01X\x07\0\0\0entriesq\x02](}(h\0K\x07h\x02"
      "M\x2c\x01u}(h\0J\xff\xff\xff\xffh\x02\x8a\x08\x01\0\0\0\0\0\0\x80ueu."s;
  EXPECT_EQ(ReadPickle(dump),
            "{version: 2.10, entries: [{version: 7, entries: 300}, {version: -1, entries: -9223372036854775807}]}");
}

TEST(Pickle, OfPython) {
  // pickle.dumps({"a": (1, 2.5, None), "b": [True, False], "c": b"xy"}, protocol=4)
  const std::string protocol4 =
      "\x80\x04\x95\x2b\0\0\0\0\0\0\0}\x94(\x8c\x01"
      "a\x94K\x01G\x40\x04\0\0\0\0\0\0N\x87\x94\x8c\x01"
      "b\x94]\x94(\x88\x89"
      "e\x8c\x01"
      "c\x94"
      "C\x02xy\x94u."s;
  EXPECT_EQ(ReadPickle(protocol4), "{a: [1, 2.5, none], b: [true, false], c: xy}");
  EXPECT_EQ(ReadPickle("\x80\x02]q\0(K\x01K\x02"
                       "eK\x03"
                       "a."s),
            "[1, 2, 3]");
  EXPECT_EQ(ReadPickle("\x80\x02]q\0(K\x01K\x02"
                       "e."s),
            "[1, 2]");
  EXPECT_EQ(ReadPickle("\x80\x02]K\x03"
                       "a}K\x01K\x02s\x86."s),
            "[[3], {1: 2}]");
  EXPECT_EQ(ReadPickle("\x80\x02(K\x01tq\0)\x85\x86."s), "[[1], [[]]]");
}

TEST(Pickle, IntegersOfAnyLength) {
  EXPECT_EQ(ReadPickle("\x80\x02\x8a\0."s), "0");
  EXPECT_EQ(ReadPickle("\x80\x02\x8a\x01\xff."s), "-1");
  EXPECT_EQ(ReadPickle("\x80\x02\x8a\x02\xff\0."s), "255");
  EXPECT_EQ(ReadPickle("\x80\x02\x8a\x09\0\0\0\0\0\0\0\0\x01."s), "too large");
}

TEST(Pickle, WhatWouldRunIsRefusedByName) {
  EXPECT_EQ(ReadPickle("\x80\x02"
                       "cos\nsystem\nX\x02\0\0\0id\x85R."s),
            "refused: pickle's GLOBAL is refused: it would import a name at byte 2");
  EXPECT_EQ(ReadPickle("\x80\x04\x8c\x02os\x8c\x06system\x93."s),
            "refused: pickle's STACK_GLOBAL is refused: it would import a name at byte 14");
  EXPECT_EQ(ReadPickle("\x80\x02K\x01)R."s), "refused: pickle's REDUCE is refused: it would call something at byte 5");
  EXPECT_EQ(ReadPickle("\x80\x02K\x01}b."s), "refused: pickle's BUILD is refused: it would call something at byte 5");
  EXPECT_EQ(ReadPickle("\x80\x02(ios\nsystem\n."s),
            "refused: pickle's INST is refused: it would call something at byte 3");
  for (const char opcode : {'o',    '\x81', '\x92', '\x82', '\x83', '\x84', 'P', 'Q', '\x97', '\x98', '\x8f',
                            '\x90', '\x91', '2',    'I',    'L',    'F',    'S', 'V', 'p',    'g'}) {
    const std::string read = ReadPickle("\x80\x02N" + std::string(1, opcode) + "\x01\0\0\0."s);
    EXPECT_TRUE(read.starts_with("refused: pickle's ")) << read;
  }
  EXPECT_EQ(ReadPickle("\x80\x02\xf7."s), "refused: no opcode of pickle: 0xf7 at byte 2");
  EXPECT_EQ(ReadPickle("\x80\x06N."s), "refused: protocol 6 of pickle is not known here at byte 0");
}

TEST(Pickle, DamageIsNamed) {
  for (const std::string& damaged : {""s,
                                     "\x80"s,
                                     "\x80\x02"s,
                                     "\x80\x02X\xff\xff\xff\xffx."s,
                                     "\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xffx."s,
                                     "\x80\x02."s,
                                     "\x80\x02NN."s,
                                     "\x80\x02(N."s,
                                     "\x80\x02h\0."s,
                                     "\x80\x02j\xff\xff\xff\x7f."s,
                                     "\x80\x02Nr\xff\xff\xff\xff."s,
                                     "\x80\x02"
                                     "a."s,
                                     "\x80\x02]"
                                     "a."s,
                                     "\x80\x02}Na."s,
                                     "\x80\x02"
                                     "e."s,
                                     "\x80\x02(Ne."s,
                                     "\x80\x02}(NuN."s,
                                     "\x80\x02](\x85."s,
                                     "\x80\x02(\x94."s,
                                     "\x80\x02N(0."s}) {
    const std::string read = ReadPickle(damaged);
    EXPECT_TRUE(read.starts_with("refused: the pickle")) << read;
  }
}

TEST(Pickle, ValuesInThemselves) {
  Tree tree;
  const auto parsed = ParsePickle("\x80\x02]q\0h\0a."s, &tree);
  ASSERT_TRUE(parsed.ok());
  const ValueId root = *parsed;
  std::size_t items = 0;
  tree.Each(root, 10, [&](ValueId item) { items += item == root; });
  EXPECT_EQ(items, 1u);
}

TEST(Pickle, ListsThatGrowInTurnTakeMemoryInProportion) {
  // Two lists, each appended to 200,000 times in turn.
  std::string pickle =
      "\x80\x02]q\0]q\1\x86q\2"
      "0"s;
  for (int i = 0; i < 200'000; ++i)
    pickle +=
        "h\0K\x01"
        "a0h\1K\x01"
        "a0"s;
  pickle += "h\2."s;
  Tree tree;
  const auto parsed = ParsePickle(pickle, &tree);
  ASSERT_TRUE(parsed.ok());
  const ValueId root = *parsed;
  std::size_t items = 0;
  tree.Each(root, SIZE_MAX, [&](ValueId list) { tree.Each(list, SIZE_MAX, [&](ValueId) { ++items; }); });
  EXPECT_EQ(items, 400'000u);
  EXPECT_LT(tree.size(), 1000u);
}

}  // namespace
}  // namespace ncclwatch::analyzer::import
