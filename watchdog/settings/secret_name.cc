#include "watchdog/settings/secret_name.h"

#include <algorithm>
#include <array>

#include "core/text/pattern.h"
#include "watchdog/settings/secret_scan.h"
#include "watchdog/settings/words.h"

namespace ncclwatch::settings {
namespace {

constexpr std::size_t kLongest = 128;  // of a name, from its end

bool IsSmall(char c) { return c >= 'a' && c <= 'z'; }
bool IsOfPart(char c) { return IsLarge(c) || IsSmall(c) || (c >= '0' && c <= '9'); }

// In small letters, with `_` for `-`.
class Small {
 public:
  explicit Small(std::string_view text) {
    text = text.substr(text.size() - std::min(text.size(), kLongest));
    for (const char c : text) letters_[size_++] = IsLarge(c) ? static_cast<char>(c - 'A' + 'a') : c == '-' ? '_' : c;
  }
  std::string_view text() const { return {letters_.data(), size_}; }

 private:
  std::array<char, kLongest> letters_;
  std::size_t size_ = 0;
};

// token of hf_token, secret of clientSecret.
std::size_t BeginOfLastPart(std::string_view name) {
  std::size_t begin = name.size();
  while (begin > 0 && IsOfPart(name[begin - 1])) {
    --begin;
    if (IsLarge(name[begin]) && begin > 0 && IsSmall(name[begin - 1])) break;
  }
  return begin;
}

template <std::size_t N>
bool IsOneOf(std::string_view word, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

template <std::size_t N>
bool EndsWithAny(std::string_view word, const std::string_view (&endings)[N]) {
  return std::any_of(std::begin(endings), std::end(endings), [&](auto ending) { return word.ends_with(ending); });
}

constexpr std::string_view kSentences[] = {"authorization", "cookie"};
constexpr std::string_view kSecrets[] = {"pwd", "creds", "passwords", "secrets", "credentials", "sessionid"};
constexpr std::string_view kSecretEndings[] = {"password",   "passwd",    "passphrase", "secret",
                                               "apikey",     "accesskey", "secretkey",  "privatekey",
                                               "accountkey", "authkey",   "passcode",   "authtoken"};
// api_key, and not cache_key.
constexpr std::string_view kKeysOf[] = {"api",     "access",     "secret",  "private", "auth",
                                        "account", "encryption", "signing", "client",  "license",
                                        "ssh",     "rsa",        "service", "storage", "subscription"};
// Signs of a language, and what is counted.
constexpr std::string_view kOtherTokens[] = {"pad",   "eos",   "bos",   "unk",           "sep",  "cls",    "mask",
                                             "image", "per",   "num",   "first",         "last", "max",    "next",
                                             "prev",  "audio", "video", "decoder_start", "stop", "special"};
constexpr std::string_view kPerhaps[] = {"key",       "keys", "pass", "auth",   "credential",
                                         "signature", "sig",  "pat",  "session"};

// The part before the last one: "api" of x_api_key.
bool HasPart(std::string_view before, std::string_view part) {
  return before.ends_with(part) && (before.size() == part.size() || !IsOfPart(before[before.size() - part.size() - 1]));
}

SecretName OfLastPart(std::string_view last, std::string_view before) {
  while (!before.empty() && !IsOfPart(before.back())) before.remove_suffix(1);
  const auto follows_any = [&](const auto& parts) {
    return std::any_of(std::begin(parts), std::end(parts), [&](auto part) { return HasPart(before, part); });
  };
  if (IsOneOf(last, kSentences)) return SecretName::kSentence;
  if (IsOneOf(last, kSecrets) || EndsWithAny(last, kSecretEndings)) return SecretName::kYes;
  if (last.ends_with("token"))
    return last == "token" && follows_any(kOtherTokens) ? SecretName::kNo : SecretName::kToken;
  if ((last == "key" || last == "keys") &&
      std::any_of(std::begin(kKeysOf), std::end(kKeysOf), [&](auto part) { return before.ends_with(part); }))
    return SecretName::kYes;
  return IsOneOf(last, kPerhaps) ? SecretName::kPerhaps : SecretName::kNo;
}

bool IsNamed(std::string_view name, std::string_view more) {
  while (!more.empty())
    if (const std::string_view element = TakeElement(&more);
        !element.empty() && MatchesPattern(Small(element).text(), name))
      return true;
  return false;
}

}  // namespace

SecretName KindOfName(std::string_view name, std::string_view more) noexcept {
  while (name.starts_with('-') || name.starts_with('.')) name.remove_prefix(1);
  while (!name.empty() && (name.back() == '_' || (name.back() >= '0' && name.back() <= '9'))) name.remove_suffix(1);
  name = name.substr(name.size() - std::min(name.size(), kLongest));
  const Small small(name);
  const std::size_t last = BeginOfLastPart(name);
  for (const std::string_view id : {"accessid", "accesskeyid", "access_key_id"})
    if (small.text().ends_with(id)) return SecretName::kPerhaps;
  const SecretName kind = OfLastPart(small.text().substr(last), small.text().substr(0, last));
  return kind != SecretName::kYes && !more.empty() && IsNamed(small.text(), more) ? SecretName::kYes : kind;
}

bool IsSecretName(std::string_view name, std::string_view more) noexcept {
  return KindOfName(name, more) != SecretName::kNo;
}

}  // namespace ncclwatch::settings
