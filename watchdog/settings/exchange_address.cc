#include "watchdog/settings/exchange_address.h"
#include "watchdog/settings/words.h"

#include <algorithm>
#include <charconv>

namespace ncclwatch::settings {
namespace {

constexpr int kMostDatabases = 1 << 20;

std::optional<std::string> Unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    unsigned value = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || error != std::errc() || end != digits.data() + 2) return std::nullopt;
    plain += static_cast<char>(value);
    i += 2;
  }
  return plain;
}

bool TakeCredentials(std::string_view* text, ExchangeAddress* address) {
  const std::size_t at = text->rfind('@');
  if (at == std::string_view::npos) return true;
  const std::string_view credentials = text->substr(0, at);
  text->remove_prefix(at + 1);
  const std::size_t colon = credentials.find(':');
  if (!address->redis || colon == std::string_view::npos) return false;
  const std::optional<std::string> user = Unescaped(credentials.substr(0, colon));
  const std::optional<std::string> password = Unescaped(credentials.substr(colon + 1));
  if (!user || !password) return false;
  address->user = *user;
  address->password = *password;
  return true;
}

bool TakeTls(std::string_view* text, ExchangeAddress* address) {
  const std::size_t mark = text->find('?');
  if (mark == std::string_view::npos) return true;
  std::string_view rest = text->substr(mark + 1);
  *text = text->substr(0, mark);
  if (!address->tls.on || rest.empty()) return false;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos || equals + 1 == one.size()) return false;
    const std::string_view what = one.substr(0, equals);
    Tls& tls = address->tls;
    std::string* const to = what == "ca"     ? &tls.ca
                            : what == "cert" ? &tls.cert
                            : what == "key"  ? &tls.key
                            : what == "name" ? &tls.name
                                             : nullptr;
    const std::optional<std::string> plain = Unescaped(one.substr(equals + 1));
    if (to == nullptr || !plain) return false;
    *to = *plain;
  }
  return address->tls.key.empty() || !address->tls.cert.empty();
}

bool TakeDatabase(std::string_view* text, ExchangeAddress* address) {
  const std::size_t slash = text->find('/');
  if (slash == std::string_view::npos) return true;
  const std::string_view number = text->substr(slash + 1);
  *text = text->substr(0, slash);
  if (number.empty()) return true;
  return address->redis && Number(number, &address->database) && address->database >= 0 &&
         address->database < kMostDatabases;
}

bool TakeHost(std::string_view* text, ExchangeAddress* address) {
  if (text->starts_with('[')) {
    const std::size_t end = text->find(']');
    if (end == std::string_view::npos) return false;
    address->host = text->substr(1, end - 1);
    text->remove_prefix(end + 1);
    if (address->host.find(':') == std::string::npos) return false;
  } else {
    const std::size_t colon = text->find(':');
    address->host = text->substr(0, colon);
    *text = colon == std::string_view::npos ? std::string_view() : text->substr(colon);
  }
  for (const char c : address->host)
    if (c <= ' ' || c == '/' || c == '@' || c == 127) return false;
  return !address->host.empty() && address->host.size() <= 255;
}

}  // namespace

std::optional<ExchangeAddress> ParseExchange(std::string_view text) {
  ExchangeAddress address;
  if (text.starts_with("redis://") || text.starts_with("rediss://")) {
    address.redis = true;
    address.tls.on = text[5] == 's';
    address.port = kRedisPort;
    text.remove_prefix(address.tls.on ? 9 : 8);
  } else if (text.starts_with("tcp://")) {
    text.remove_prefix(6);
  } else {
    return std::nullopt;
  }
  if (!TakeCredentials(&text, &address) || !TakeTls(&text, &address) || !TakeDatabase(&text, &address) ||
      !TakeHost(&text, &address))
    return std::nullopt;
  if (!text.empty() && (text[0] != ':' || !Number(text.substr(1), &address.port))) return std::nullopt;
  if (address.port == 0) return std::nullopt;
  return address;
}

std::string WithoutSecret(std::string_view text) {
  const std::size_t scheme = text.find("://"), at = text.rfind('@');
  if (at == std::string_view::npos) return std::string(text);
  const std::size_t from = scheme == std::string_view::npos || scheme > at ? 0 : scheme + 3;
  return std::string(text.substr(0, from)) + "***" + std::string(text.substr(at));
}

}  // namespace ncclwatch::settings
