#include "watchdog/exchange/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ncclwatch::exchange {
namespace {

std::string Hex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string HashOf(std::string_view text) {
  Sha256 hash;
  hash.Update(text);
  return Hex(hash.Finish());
}

std::string MacOf(std::string_view key, std::string_view text) { return Hex(HmacKey(Bytes(key)).Of({text})); }

// NIST, examples of FIPS 180-4 and its test vectors for long messages.
TEST(Sha256, NistVectors) {
  EXPECT_EQ(HashOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HashOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HashOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HashOf("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
                   "mnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(HashOf(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesMakeTheSame) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (std::size_t size = 0; size <= text.size(); ++size) {
    Sha256 pieces;
    for (std::size_t at = 0; at < size;) {
      const std::size_t take = std::min<std::size_t>(1 + at % 67, size - at);
      pieces.Update(std::string_view(text).substr(at, take));
      at += take;
    }
    ASSERT_EQ(Hex(pieces.Finish()), HashOf(text.substr(0, size))) << size;
  }
}

// RFC 4231, cases 1 to 4, 6 and 7.
TEST(Hmac, Rfc4231Vectors) {
  EXPECT_EQ(MacOf(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(MacOf("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(MacOf(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string key;
  for (char c = 1; c <= 25; ++c) key += c;
  EXPECT_EQ(MacOf(key, std::string(50, '\xcd')), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(MacOf(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(MacOf(std::string(131, '\xaa'),
                  "This is a test using a larger than block-size key and a larger than block-size data. The key needs "
                  "to be hashed before being used by the HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Hmac, PartsAreOneMessage) {
  const HmacKey key(Bytes("key"));
  EXPECT_EQ(key.Of({"a", "", "bc"}), key.Of({"abc"}));
  EXPECT_NE(key.Of({"abc"}), key.Of({"abd"}));
}

TEST(SameBytes, ComparesAll) {
  EXPECT_TRUE(SameBytes("", ""));
  EXPECT_TRUE(SameBytes("abc", "abc"));
  EXPECT_FALSE(SameBytes("abc", "abd"));
  EXPECT_FALSE(SameBytes("abc", "abcd"));
}

}  // namespace
}  // namespace ncclwatch::exchange
