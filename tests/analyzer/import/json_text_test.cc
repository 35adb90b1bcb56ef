#include "analyzer/import/json_text.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/analyzer/import/text_of.h"

namespace ncclwatch::analyzer::import {
namespace {

std::string Read(const std::string& json) {
  Tree tree;
  const auto root = ParseJson(json, &tree);
  return root.ok() ? TextOf(tree, *root) : "refused: " + std::string(root.status().message());
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
  EXPECT_TRUE(ParseJson(deep + std::string(deep.size(), ']'), &tree).ok());
}

}  // namespace
}  // namespace ncclwatch::analyzer::import
