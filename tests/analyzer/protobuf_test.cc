#include "analyzer/export/calls/protobuf.h"

#include <gtest/gtest.h>

#include <string>

namespace ncclwatch::analyzer::exporting {
namespace {

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

// The first two are the examples of protobuf.dev/programming-guides/encoding.
TEST(Protobuf, WritesWhatItsGuideShows) {
  ProtobufWriter out;
  out.Number(1, 150);
  EXPECT_EQ(Hex(out.bytes()), "089601");
  out.Clear();
  out.Text(2, "testing");
  EXPECT_EQ(Hex(out.bytes()), "120774657374696e67");
  out.Clear();
  out.Number(1, UINT64_MAX);
  out.Fixed64(2, 1);
  out.Double(3, 1);
  EXPECT_EQ(Hex(out.bytes()),
            "08ffffffffffffffffff01"
            "110100000000000000"
            "19000000000000f03f");
}

TEST(Protobuf, LongMessagesMakeRoomForTheirLength) {
  for (const std::size_t length : {0u, 1u, 125u, 126u, 127u, 128u, 16381u, 16382u, 100'000u}) {
    ProtobufWriter inner, out;
    if (length > 0) inner.Text(1, std::string(length, 'x'));
    const std::size_t message = out.Begin(3);
    const std::size_t deeper = out.Begin(4);
    if (length > 0) out.Text(1, std::string(length, 'x'));
    out.End(deeper);
    out.Number(5, 7);
    out.End(message);
    ProtobufWriter expected, middle;
    middle.Text(4, inner.bytes());
    middle.Number(5, 7);
    expected.Text(3, middle.bytes());
    EXPECT_EQ(Hex(out.bytes()), Hex(expected.bytes())) << length;
  }
}

}  // namespace
}  // namespace ncclwatch::analyzer::exporting
