// What libsodium does for the exchange: hashes, proofs, and messages that nobody else can read or alter. Linked
// statically. sodium_init is never called: without it libsodium takes its portable code (over 200 MB/s),
// opens nothing and keeps no state, so that all of this works in any thread of the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ncclwatch::exchange {

using Digest = std::array<std::uint8_t, 32>;

inline std::span<const std::uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
inline std::string_view Text(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string Hex(std::span<const std::uint8_t> bytes);

// False: built without libsodium, for another processor. Then nothing below does what it says, and nobody may exchange
// anything.
bool HasCrypto();

Digest HashOf(std::initializer_list<std::string_view> parts);  // SHA-256

class HmacKey {  // HMAC-SHA-256
 public:
  explicit HmacKey(std::span<const std::uint8_t> key) : key_(Text(key)) {}
  Digest Of(std::initializer_list<std::string_view> parts) const;

 private:
  std::string key_;
};

// Takes as long whatever the difference is.
bool SameBytes(std::string_view a, std::string_view b);

// X25519. Of each pair one half is sent, and both sides come to the same secret.
Digest PublicOf(const Digest& own);
std::optional<Digest> SharedOf(const Digest& own, std::string_view other);  // none: no key that anybody should send

inline constexpr std::size_t kSealTag = 16;

// ChaCha20-Poly1305 (RFC 8439). A number is used once with a key. What is from `from` on in *text is encrypted, and the
// tag appended; `with` is not, but cannot be altered either.
void SealNumbered(const Digest& key, std::uint64_t number, std::string_view with, std::size_t from, std::string* text);
std::optional<std::string> OpenNumbered(const Digest& key, std::uint64_t number, std::string_view with,
                                        std::string_view sealed);

// XChaCha20-Poly1305, with a nonce by chance in front. Empty: the kernel has no random bytes to give.
std::string SealAlone(const Digest& key, std::string_view with, std::string_view text);
std::optional<std::string> OpenAlone(const Digest& key, std::string_view with, std::string_view sealed);

bool RandomBytes(std::span<std::uint8_t> bytes);  // of the kernel; false: it has none (yet)

}  // namespace ncclwatch::exchange
