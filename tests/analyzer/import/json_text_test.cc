#include "analyzer/import/json_text.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/analyzer/import/text_of.h"

namespace ncclwatch::analyzer::import {
namespace {

std::string Read(const std::string& json) {
  Tree tree;
  ValueId root = 0;
  const std::string reason = ParseJson(json, &tree, &root);
  return reason.empty() ? TextOf(tree, root) : "refused: " + reason;
}

TEST(JsonText, BecomesTheSameValuesAsAPickle) {
  EXPECT_EQ(
      Read(R"( {"version":"2.10","entries":[{"state":"a\u00e9\n","retired":true,"x":null,"y":[]}],"n":[-1,1.5,7]} )"),
      "{version: 2.10, entries: [{state: a\xc3\xa9\n, retired: true, x: none, y: []}], n: [-1, 1.5, 7]}");
  EXPECT_EQ(Read("[18446744073709551615, 9223372036854775807]"), "[too large, 9223372036854775807]");
}

TEST(JsonText, DamageIsNamed) {
  for (const char* damaged : {"", "{", "{\"a\"", "[1,]", "{} x", "[1e999]", "\"\xff\"", "{\"a\":1,}", "nan"})
    EXPECT_TRUE(Read(damaged).starts_with("refused: no JSON")) << damaged << ": " << Read(damaged);
}

TEST(JsonText, DepthIsNoMatter) {
  const std::string deep(1'000'000, '[');
  EXPECT_TRUE(Read(deep).starts_with("refused: no JSON"));
  Tree tree;
  ValueId root = 0;
  EXPECT_EQ(ParseJson(deep + std::string(deep.size(), ']'), &tree, &root), "");
}

}  // namespace
}  // namespace ncclwatch::analyzer::import
