#include "core/text/printable.h"

#include <gtest/gtest.h>

namespace ncclwatch {
namespace {

TEST(Printable, WhatStandsInTextStays) { EXPECT_EQ(Printable("Zürich 東京 🙂 ~"), "Zürich 東京 🙂 ~"); }

TEST(Printable, EveryWayToSteerATerminalIsTaken) {
  EXPECT_EQ(Printable("\033]0;title\007"), "?]0;title?");
  EXPECT_EQ(Printable("a\r\n\tb\x7f"), "a???b?");
  EXPECT_EQ(Printable(std::string_view("\0x", 2)), "?x");
  for (int code = 0x80; code < 0xa0; ++code)
    EXPECT_EQ(Printable(std::string("a\xc2") + static_cast<char>(code) + "b"), "a?b") << code;
  EXPECT_EQ(Printable("\xc2\xa0"), "\xc2\xa0");
}

TEST(Printable, WhatIsNotUtf8IsTaken) {
  EXPECT_EQ(Printable("\x9b"
                      "31m"),
            "?31m")
      << "C1 as one byte";
  EXPECT_EQ(Printable("\xe0\x82\x9b"), "???") << "U+009B, longer than need be";
  EXPECT_EQ(Printable("\xc0\x9b"), "??");
  EXPECT_EQ(Printable("\xf0\x80\x82\x9b"), "????");
  EXPECT_EQ(Printable("\xe6\x9d"), "??") << "cut";
}

TEST(Printable, LinesStayLines) { EXPECT_EQ(PrintableLines("a\x1b\nb\n"), "a?\nb\n"); }

TEST(Printable, JsonStaysTheSameJson) {
  EXPECT_EQ(PrintableJson("{\"a\": \"\xc2\x9b"
                          "1m\x7fü\"}"),
            "{\"a\": \"\\u009b1m\\u007fü\"}");
}

TEST(Printable, WithoutMemoryOfItsOwn) {
  char line[] =
      "a\xc2\x9b"
      "b\033";
  EXPECT_EQ(MakePrintable(line, sizeof(line) - 1), 4u);
  EXPECT_EQ(std::string(line, 4), "a?b?");
}

}  // namespace
}  // namespace ncclwatch
