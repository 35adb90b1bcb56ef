#include "watchdog/exchange/protocol/crypto.h"

#include <sodium.h>

#include "watchdog/exchange/protocol/bytes.h"

namespace ncclwatch::exchange {
namespace {

constexpr std::size_t kWideNonce = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
static_assert(kSealTag == crypto_aead_chacha20poly1305_ietf_ABYTES);
static_assert(kSealTag == crypto_aead_xchacha20poly1305_ietf_ABYTES);
static_assert(std::tuple_size_v<Digest> == crypto_aead_chacha20poly1305_ietf_KEYBYTES);
static_assert(std::tuple_size_v<Digest> == crypto_scalarmult_BYTES);

const unsigned char* Raw(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* Raw(std::string* text) { return reinterpret_cast<unsigned char*>(text->data()); }

using ShortNonce = std::array<unsigned char, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;
ShortNonce NonceOf(std::uint64_t number) {
  ShortNonce nonce{};
  for (std::size_t i = 0; i < sizeof(number); ++i) nonce[4 + i] = static_cast<unsigned char>(number >> (8 * i));
  return nonce;
}

}  // namespace

bool HasCrypto() { return true; }

Digest HashOf(std::initializer_list<std::string_view> parts) {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  for (const std::string_view part : parts) crypto_hash_sha256_update(&state, Raw(part), part.size());
  Digest digest;
  crypto_hash_sha256_final(&state, digest.data());
  return digest;
}

Digest HmacKey::Of(std::initializer_list<std::string_view> parts) const {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, Raw(key_), key_.size());
  for (const std::string_view part : parts) crypto_auth_hmacsha256_update(&state, Raw(part), part.size());
  Digest digest;
  crypto_auth_hmacsha256_final(&state, digest.data());
  return digest;
}

bool SameBytes(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Digest PublicOf(const Digest& own) {
  Digest half;
  crypto_scalarmult_base(half.data(), own.data());
  return half;
}

std::optional<Digest> SharedOf(const Digest& own, std::string_view other) {
  Digest secret;
  if (other.size() != secret.size() || crypto_scalarmult(secret.data(), own.data(), Raw(other)) != 0)
    return std::nullopt;
  return secret;
}

void SealNumbered(const Digest& key, std::uint64_t number, std::string_view with, std::size_t from, std::string* text) {
  // `with` may lie in *text, which must not move any more.
  const std::string associated(with);
  const std::size_t bytes = text->size() - from;
  text->append(kSealTag, '\0');
  unsigned char* const at = Raw(text) + from;
  crypto_aead_chacha20poly1305_ietf_encrypt_detached(at, at + bytes, nullptr, at, bytes, Raw(associated),
                                                     associated.size(), nullptr, NonceOf(number).data(), key.data());
}

std::optional<std::string> OpenNumbered(const Digest& key, std::uint64_t number, std::string_view with,
                                        std::string_view sealed) {
  if (sealed.size() < kSealTag) return std::nullopt;
  std::string text(sealed.size() - kSealTag, '\0');
  if (crypto_aead_chacha20poly1305_ietf_decrypt_detached(Raw(&text), nullptr, Raw(sealed), text.size(),
                                                         Raw(sealed) + text.size(), Raw(with), with.size(),
                                                         NonceOf(number).data(), key.data()) != 0)
    return std::nullopt;
  return text;
}

std::string SealAlone(const Digest& key, std::string_view with, std::string_view text) {
  std::array<std::uint8_t, kWideNonce> nonce{};
  if (!RandomBytes(nonce)) return {};
  std::string sealed(Text(nonce));
  sealed.resize(nonce.size() + text.size() + kSealTag);
  crypto_aead_xchacha20poly1305_ietf_encrypt(Raw(&sealed) + nonce.size(), nullptr, Raw(text), text.size(), Raw(with),
                                             with.size(), nullptr, nonce.data(), key.data());
  return sealed;
}

std::optional<std::string> OpenAlone(const Digest& key, std::string_view with, std::string_view sealed) {
  if (sealed.size() < kWideNonce + kSealTag) return std::nullopt;
  const std::string_view content = sealed.substr(kWideNonce);
  std::string text(content.size() - kSealTag, '\0');
  if (crypto_aead_xchacha20poly1305_ietf_decrypt(Raw(&text), nullptr, nullptr, Raw(content), content.size(), Raw(with),
                                                 with.size(), Raw(sealed), key.data()) != 0)
    return std::nullopt;
  return text;
}

}  // namespace ncclwatch::exchange
