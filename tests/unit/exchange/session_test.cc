#include "watchdog/exchange/protocol/session.h"

#include <gtest/gtest.h>

#include <random>

#include "watchdog/exchange/rendezvous/token.h"

namespace ncclwatch::exchange {
namespace {

using Side = Session::Side;

Nonce NonceOf(std::uint8_t byte) {
  Nonce nonce;
  nonce.fill(byte);
  return nonce;
}

struct Pair {
  explicit Pair(std::vector<Token> dialers = {TokenOfSecret("t")}, std::vector<Token> listeners = {TokenOfSecret("t")},
                std::uint8_t seed = 1)
      : dialer_keys(dialers),
        listener_keys(listeners),
        dialer(Side::kDialer, &dialer_keys, NonceOf(seed)),
        listener(Side::kListener, &listener_keys, NonceOf(static_cast<std::uint8_t>(seed + 100))) {}

  // Carries the handshake; what each side said is kept.
  bool Shake() {
    hello = dialer.TakeOutput();
    if (!listener.Feed(hello)) return false;
    challenge = listener.TakeOutput();
    if (!dialer.Feed(challenge)) return false;
    proof = dialer.TakeOutput();
    return listener.Feed(proof) && dialer.proven() && listener.proven();
  }
  std::string Sealed(Session* from, std::string_view body, std::uint16_t kind = 7) {
    std::string bytes;
    from->MessageAuthenticator(kind, "head ", body, &bytes);
    return bytes;
  }

  Keys dialer_keys, listener_keys;
  Session dialer, listener;
  std::string hello, challenge, proof;
};

TEST(Session, ProvesTheTokenAndCarriesFramesBothWays) {
  Pair pair;
  ASSERT_TRUE(pair.Shake()) << pair.dialer.why() << pair.listener.why();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pair.listener.Feed(pair.Sealed(&pair.dialer, std::to_string(i))));
    const auto frame = pair.listener.Take();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->kind, 7);
    EXPECT_EQ(frame->payload, "head " + std::to_string(i));
    ASSERT_TRUE(pair.dialer.Feed(pair.Sealed(&pair.listener, "back")));
    ASSERT_TRUE(pair.dialer.Take());
  }
  EXPECT_FALSE(pair.listener.Take());
}

// argv, exception texts, stacks: not for those who can read the network.
TEST(Session, NothingThatIsSaidCanBeRead) {
  Pair pair;
  ASSERT_TRUE(pair.Shake());
  const std::string first = pair.Sealed(&pair.dialer, "--api-key=secret"),
                    second = pair.Sealed(&pair.dialer, "--api-key=secret"),
                    back = pair.Sealed(&pair.listener, "--api-key=secret");
  for (const std::string& bytes : {first, second, back}) {
    EXPECT_EQ(bytes.find("head"), std::string::npos);
    EXPECT_EQ(bytes.find("api"), std::string::npos);
    EXPECT_EQ(bytes.size(), kFrameHeader + 21 + kFrameMac);
  }
  EXPECT_NE(first, second) << "the same twice";
  EXPECT_NE(first, back) << "the same key both ways";
}

// With the token alone, learnt later or guessed, what was recorded cannot be read: keys follow from secrets of that
// time.
TEST(Session, EveryConnectionHasKeysOfItsOwn) {
  Pair one({TokenOfSecret("t")}, {TokenOfSecret("t")}, 1), other({TokenOfSecret("t")}, {TokenOfSecret("t")}, 2);
  ASSERT_TRUE(one.Shake() && other.Shake());
  EXPECT_NE(one.Sealed(&one.dialer, "x"), other.Sealed(&other.dialer, "x"));
  EXPECT_EQ(one.hello.find(std::string(32, '\1')), std::string::npos) << "its half of the secret as it is";
}

TEST(Session, AnotherVersionIsRefusedAndReportedWhich) {
  Pair pair;
  std::string hello = pair.dialer.TakeOutput();
  hello[4] = 1;
  EXPECT_FALSE(pair.listener.Feed(hello));
  EXPECT_TRUE(pair.listener.other_version());
  EXPECT_EQ(pair.listener.why(), "runs another version of ncclwatch (its exchange speaks version 1, this one " +
                                     std::to_string(kWireVersion) + ")");
  std::string answer = pair.listener.TakeOutput();
  EXPECT_EQ(answer.size(), 40u);
  answer[4] = 9;
  EXPECT_FALSE(pair.dialer.Feed(answer));
  EXPECT_TRUE(pair.dialer.other_version());
}

TEST(Session, ByteByByteIsTheSame) {
  Pair pair;
  const auto drip = [](Session* to, const std::string& bytes) {
    for (const char byte : bytes)
      if (!to->Feed({&byte, 1})) return false;
    return true;
  };
  ASSERT_TRUE(drip(&pair.listener, pair.dialer.TakeOutput()));
  ASSERT_TRUE(drip(&pair.dialer, pair.listener.TakeOutput()));
  ASSERT_TRUE(drip(&pair.listener, pair.dialer.TakeOutput()));
  ASSERT_TRUE(drip(&pair.listener, pair.Sealed(&pair.dialer, std::string(5000, 'x'))));
  EXPECT_EQ(pair.listener.Take()->payload.size(), 5005u);
}

TEST(Session, LargestPayloadPassesAndALargerOneDoesNot) {
  Pair pair;
  ASSERT_TRUE(pair.Shake());
  ASSERT_TRUE(pair.listener.Feed(pair.Sealed(&pair.dialer, std::string(kMaxPayload - 5, 'x'))));
  EXPECT_EQ(pair.listener.Take()->payload.size(), kMaxPayload);
  EXPECT_FALSE(pair.listener.Feed(pair.Sealed(&pair.dialer, std::string(kMaxPayload - 4, 'x'))));
  EXPECT_EQ(pair.listener.buffered(), 0u);
}

TEST(Session, TheFirstTokenThatBothHoldIsUsed) {
  const Token a = TokenOfSecret("a"), b = TokenOfSecret("b"), c = TokenOfSecret("c");
  EXPECT_TRUE(Pair({a, b}, {b}).Shake());
  EXPECT_TRUE(Pair({b}, {a, b}).Shake());
  EXPECT_TRUE(Pair({a, b, c}, {c, b}).Shake());
  EXPECT_FALSE(Pair({a, b}, {c}).Shake());
  EXPECT_FALSE(Pair({a}, {}).Shake());
}

TEST(Session, AWrongTokenIsRefusedAtTheFirstMessage) {
  Pair pair({TokenOfSecret("right")}, {TokenOfSecret("wrong")});
  EXPECT_FALSE(pair.listener.Feed(pair.dialer.TakeOutput()));
  EXPECT_EQ(pair.listener.why(), "does not have the job's token");
  EXPECT_TRUE(pair.listener.TakeOutput().empty()) << "told something to a stranger";
}

TEST(Session, StrangersAreRefusedAtTheirFirstWrongByte) {
  for (const char* text : {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", "NCWZ", "NX", "*1\r\n"}) {
    Pair pair;
    EXPECT_FALSE(pair.listener.Feed(text)) << text;
    EXPECT_FALSE(pair.listener.plausible());
  }
  Pair pair;
  EXPECT_TRUE(pair.listener.Feed("NC"));
  EXPECT_FALSE(pair.listener.Feed("X"));
  EXPECT_FALSE(pair.listener.Feed(pair.dialer.TakeOutput())) << "refused is refused for ever";
}

// Each message of one handshake, put into another one of the same token.
TEST(Session, NothingOfAnotherHandshakeFits) {
  Pair old;
  ASSERT_TRUE(old.Shake());
  {
    Pair pair({TokenOfSecret("t")}, {TokenOfSecret("t")}, 2);
    ASSERT_TRUE(pair.listener.Feed(old.hello)) << "the hello says nothing about the listener";
    EXPECT_FALSE(pair.listener.proven());
    EXPECT_FALSE(pair.listener.Feed(old.proof));
  }
  {
    Pair pair({TokenOfSecret("t")}, {TokenOfSecret("t")}, 2);
    EXPECT_FALSE(pair.dialer.Feed(old.challenge));
  }
  const std::string frame = old.Sealed(&old.dialer, "secret");
  Pair pair({TokenOfSecret("t")}, {TokenOfSecret("t")}, 2);
  ASSERT_TRUE(pair.Shake());
  EXPECT_FALSE(pair.listener.Feed(frame));
}

// One that only repeats what it hears must not become a peer: neither as listener nor as dialer.
TEST(Session, AMirrorIsNoPeer) {
  Pair pair;
  EXPECT_FALSE(pair.dialer.Feed(pair.dialer.TakeOutput()));
  Pair other;
  ASSERT_TRUE(other.listener.Feed(other.dialer.TakeOutput()));
  EXPECT_FALSE(other.listener.Feed(other.listener.TakeOutput()));
  Pair third;
  ASSERT_TRUE(third.Shake());
  EXPECT_FALSE(third.dialer.Feed(third.Sealed(&third.dialer, "x"))) << "its own frame sent back";
}

TEST(Session, EveryAlteredByteOfTheHandshakeIsRefused) {
  Pair whole;
  ASSERT_TRUE(whole.Shake());
  for (std::size_t i = 0; i < whole.hello.size() + whole.challenge.size() + whole.proof.size(); ++i) {
    Pair pair;
    std::size_t at = i;
    const auto altered = [&at](std::string bytes) {
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ 0x04);
      at -= bytes.size();
      return bytes;
    };
    const bool shaken = pair.listener.Feed(altered(pair.dialer.TakeOutput())) &&
                        pair.dialer.Feed(altered(pair.listener.TakeOutput())) &&
                        pair.listener.Feed(altered(pair.dialer.TakeOutput())) && pair.listener.proven();
    EXPECT_FALSE(shaken) << "byte " << i;
  }
}

TEST(Session, AlteredCutRepeatedAndReorderedFramesAreRefused) {
  const auto refuses = [](auto damage) {
    Pair pair;
    if (!pair.Shake()) return false;
    const std::string first = pair.Sealed(&pair.dialer, "first"), second = pair.Sealed(&pair.dialer, "second");
    for (const std::string& bytes : damage(first, second))
      if (!pair.listener.Feed(bytes)) return true;
    return false;
  };
  using Bytes = std::vector<std::string>;
  EXPECT_FALSE(refuses([](auto a, auto b) { return Bytes{a, b}; }));
  EXPECT_TRUE(refuses([](auto a, auto b) { return Bytes{b, a}; }));
  EXPECT_TRUE(refuses([](auto a, auto) { return Bytes{a, a}; }));
  EXPECT_TRUE(refuses([](auto, auto b) { return Bytes{b}; }));
  EXPECT_TRUE(refuses([](auto a, auto b) { return Bytes{a.substr(0, a.size() - 1), b}; }));
  EXPECT_TRUE(refuses([](auto a, auto b) { return Bytes{a.substr(1), b, b, b}; }));
  for (std::size_t i = 0; i < 8 + 10 + 16; ++i)
    EXPECT_TRUE(refuses([i](auto a, auto b) {
      a[i] = static_cast<char>(a[i] ^ 1);
      return Bytes{a, b + std::string(70'000, '\0')};  // a length that grew waits for more
    })) << i;
}

TEST(Session, RandomBytesNeverProveAnything) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    Pair pair;
    std::string bytes = pair.dialer.TakeOutput();
    const std::size_t keep = random() % (bytes.size() + 1);
    bytes.resize(keep);
    for (unsigned n = random() % 400; n > 0; --n) bytes += static_cast<char>(random());
    pair.listener.Feed(bytes);
    EXPECT_FALSE(pair.listener.proven());
    EXPECT_LE(pair.listener.buffered(), 400u + 168u);
  }
}

}  // namespace
}  // namespace ncclwatch::exchange
