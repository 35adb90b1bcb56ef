#include "analyzer/bundle/addresses.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "analyzer/bundle/pieces.h"

namespace ncclwatch::analyzer {
namespace {

bool IsHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsAlnum(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

constexpr std::string_view kVersioned[] = {"version", "cuda", "cudnn",   "cublas", "driver",
                                           "rocm",    "hip",  "release", "build",  "_dali"};

constexpr std::size_t kLongestText = 96;  // 20 bytes of InfiniBand in hexadecimal are 59

// Six pairs (Ethernet), eight or twenty (InfiniBand), sixteen (a fingerprint).
bool IsPairs(std::string_view word, char between) {
  if (word.size() % 3 != 2 || word.size() < 17) return false;
  for (std::size_t i = 0; i < word.size(); ++i)
    if (i % 3 == 2 ? word[i] != between : !IsHex(word[i])) return false;
  return true;
}

// Two names of C++ may be numbers too ("ad::cafe"): an address has more parts, or begins as addresses do.
bool IsIpv6(std::string_view word) {
  char text[kLongestText + 1] = "";
  in6_addr address;
  if (word.size() > 45) return false;
  std::memcpy(text, word.data(), word.size());
  if (inet_pton(AF_INET6, text, &address) != 1 || word == "::" || word == "::1") return false;
  if (word.find("::") == std::string_view::npos) return true;
  const auto colons = std::count(word.begin(), word.end(), ':');
  const std::size_t first = word.find(':');
  return colons >= 4 || (first == 4 && std::strchr("23fF", word.front()) != nullptr) || word.starts_with("::ffff:");
}

}  // namespace

bool IsIpv4(std::string_view word) {
  int parts = 0, value = -1;
  for (const char c : word) {
    if (c == '.') {
      if (value < 0) return false;
      ++parts, value = -1;
    } else if (c >= '0' && c <= '9') {
      value = (value < 0 ? 0 : value * 10) + (c - '0');
      if (value > 255) return false;
    } else {
      return false;
    }
  }
  return parts == 3 && value >= 0;
}

std::size_t EndOfColonAddress(std::string_view text, std::size_t at) {
  if (at > 0 && (IsAlnum(text[at - 1]) || text[at - 1] == ':' || text[at - 1] == '_' || text[at - 1] == '.')) return at;
  std::size_t hex = at;
  while (hex < text.size() && hex - at < 5 && IsHex(text[hex])) ++hex;
  if (hex == text.size() || text[hex] != ':') return at;
  std::size_t end = at;
  while (end < text.size() && end - at <= kLongestText && (IsHex(text[end]) || text[end] == ':' || text[end] == '.'))
    ++end;
  if (end - at > kLongestText || (end < text.size() && (IsAlnum(text[end]) || text[end] == '_'))) return at;
  while (end > at && (text[end - 1] == '.' || (text[end - 1] == ':' && (end - at < 2 || text[end - 2] != ':')))) --end;
  const std::string_view word = text.substr(at, end - at);
  return IsPairs(word, ':') || IsIpv6(word) ? end : at;
}

bool IsMacWithDashes(std::string_view word) {
  return word.size() == 17 && IsPairs(word, '-') &&
         std::any_of(word.begin(), word.end(), [](char c) { return IsHex(c) && c > '9'; });
}

bool FollowsVersion(std::string_view text, std::size_t at) {
  if (text[at] < '0' || text[at] > '9') return false;
  constexpr std::size_t kMostSigns = 8, kLongestWord = 32;
  std::size_t end = at;
  while (end > 0 && at - end < kMostSigns && !IsOfWord(text[end - 1]) && text[end - 1] != '\n') --end;
  if (text.substr(end, at - end) == "==") return true;
  std::size_t begin = end;
  while (begin > 0 && end - begin < kLongestWord && IsOfWord(text[begin - 1])) --begin;
  std::string word(text.substr(begin, end - begin));
  for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::any_of(std::begin(kVersioned), std::end(kVersioned),
                     [&](std::string_view thing) { return word.find(thing) != std::string::npos; });
}

bool IsNamedByAddress(std::string_view word) {
  if (!word.starts_with("ip-")) return false;
  std::string dotted(word.substr(3));
  std::replace(dotted.begin(), dotted.end(), '-', '.');
  return IsIpv4(dotted);
}

}  // namespace ncclwatch::analyzer
