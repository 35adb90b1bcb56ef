#include "watchdog/exchange/protocol/crypto.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ncclwatch::exchange {
namespace {

std::string HashOf(std::string_view text) { return Hex(exchange::HashOf({text})); }

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

std::string FromHex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  return bytes;
}
Digest DigestOf(std::string_view hex) {
  Digest digest{};
  const std::string bytes = FromHex(hex);
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

// RFC 7748, section 6.1.
TEST(X25519, Rfc7748Vectors) {
  const Digest alice = DigestOf("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
  const Digest bob = DigestOf("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
  EXPECT_EQ(Hex(PublicOf(alice)), "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
  const auto shared = SharedOf(alice, Text(PublicOf(bob)));
  ASSERT_TRUE(shared);
  EXPECT_EQ(Hex(*shared), "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
  EXPECT_EQ(SharedOf(bob, Text(PublicOf(alice))), shared);
  EXPECT_FALSE(SharedOf(alice, std::string(32, '\0'))) << "a point from which everybody knows the secret";
  EXPECT_FALSE(SharedOf(alice, "short"));
}

// RFC 8439, appendix A.5.
TEST(Sealed, Rfc8439Vector) {
  const Digest key = DigestOf("1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0");
  const std::string with = FromHex("f33388860000000000004e91");
  const std::string text =
      "Internet-Drafts are draft documents valid for a maximum of six months and may be updated, replaced, or "
      "obsoleted "
      "by other documents at any time. It is inappropriate to use Internet-Drafts as reference material or to cite "
      "them "
      "other than as /\u201cwork in progress./\u201d";
  std::string sealed = "head" + text;
  SealNumbered(key, 0x0807060504030201, with, 4, &sealed);
  ASSERT_EQ(sealed.size(), 4 + text.size() + kSealTag);
  EXPECT_EQ(sealed.substr(0, 4), "head");
  EXPECT_EQ(Hex(Bytes(sealed.substr(4, 16))), "64a0861575861af460f062c79be643bd");
  EXPECT_EQ(Hex(Bytes(sealed.substr(sealed.size() - kSealTag))), "eead9d67890cbb22392336fea1851f38");
  EXPECT_EQ(OpenNumbered(key, 0x0807060504030201, with, sealed.substr(4)), text);
  EXPECT_FALSE(OpenNumbered(key, 0x0807060504030202, with, sealed.substr(4)));
  EXPECT_FALSE(OpenNumbered(key, 0x0807060504030201, "", sealed.substr(4)));
  EXPECT_FALSE(OpenNumbered(key, 0x0807060504030201, with, "short"));
}

// draft-irtf-cfrg-xchacha-03, appendix A.3.1.
TEST(Sealed, XChaChaVector) {
  const Digest key = DigestOf("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f");
  const std::string with = FromHex("50515253c0c1c2c3c4c5c6c7");
  const std::string sealed = FromHex(
      "404142434445464748494a4b4c4d4e4f5051525354555657"
      "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54c216"
      "cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff921f9664c97637da9768812f615c68b13"
      "b52ec0875924c1c7987947deafd8780acf49");
  EXPECT_EQ(
      OpenAlone(key, with, sealed),
      "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would "
      "be it.");
  const std::string one = SealAlone(key, with, "text"), other = SealAlone(key, with, "text");
  EXPECT_NE(one, other);
  EXPECT_EQ(OpenAlone(key, with, one), "text");
  EXPECT_FALSE(OpenAlone(key, "other", one));
  EXPECT_FALSE(OpenAlone(key, with, one.substr(0, 39)));
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::string altered = one;
    altered[i] = static_cast<char>(altered[i] ^ 1);
    EXPECT_FALSE(OpenAlone(key, with, altered)) << i;
  }
}

}  // namespace
}  // namespace ncclwatch::exchange
