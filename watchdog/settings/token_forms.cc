#include "watchdog/settings/token_forms.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "watchdog/settings/token_table.h"

namespace ncclwatch::settings {
namespace {

bool IsOf(std::uint16_t letters, char c) { return (kLettersOf[static_cast<unsigned char>(c)] & letters) != 0; }

constexpr auto kSorted = [] {
  std::array<Form, std::size(kForms)> sorted{};
  std::copy(std::begin(kForms), std::end(kForms), sorted.begin());
  std::sort(sorted.begin(), sorted.end(), [](const Form& a, const Form& b) { return a.prefix < b.prefix; });
  return sorted;
}();

// The first in kSorted that begins with a letter.
constexpr auto kFirst = [] {
  std::array<std::uint8_t, 256> first{};
  for (std::size_t i = kSorted.size(); i-- > 0;)
    first[static_cast<unsigned char>(kSorted[i].prefix[0])] = static_cast<std::uint8_t>(i);
  return first;
}();
static_assert(kSorted.size() < 256);

// What is refused was looked at this far at most: a long text of many beginnings takes no longer than any other.
constexpr std::size_t kMostRefused = 512;

std::size_t End(std::string_view text, std::size_t at, std::uint16_t letters,
                std::size_t most = std::string_view::npos) {
  const std::size_t end = most < text.size() - at ? at + most : text.size();
  while (at < end && IsOf(letters, text[at])) ++at;
  return at;
}

// At most `most` letters.
std::size_t Begin(std::string_view text, std::size_t at, std::uint16_t letters, std::size_t most) {
  const std::size_t end = at;
  while (at > 0 && end - at < most && IsOf(letters, text[at - 1])) --at;
  return at;
}

// "h00012" of a bundle (analyzer/bundle/redactor.h), which would be taken for a secret if it were redacted again.
bool IsSubstitute(std::string_view word) {
  constexpr std::size_t kLongestNumber = 4;
  if (word.size() < 2 || word[1] != '0' || std::string_view("hdufp").find(word[0]) == std::string_view::npos)
    return false;
  return word.size() - std::min(word.find_first_not_of('0', 1), word.size()) <= kLongestNumber;
}

// Not only one of a substitute.
bool HasDigit(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = End(text, at, kAlnum);
    const std::string_view run = text.substr(at, end - at);
    if (!IsSubstitute(run) && std::any_of(run.begin(), run.end(), [](char c) { return IsOf(kDigits, c); })) return true;
    at = end + 1;
  }
  return false;
}

// "dXNlcjpw", not "Training" or "training".
bool IsMixed(std::string_view text) {
  return text.size() > 1 && IsOf(kAlnum, text[0]) &&
         std::any_of(text.begin() + 1, text.end(), [](char c) { return IsOf(kLarge | kDigits | kBase64, c); });
}

Span Match(const Form& form, std::string_view text, std::size_t at) {
  if (text.compare(at, form.prefix.size(), form.prefix) != 0) return {};
  if ((form.flags & kAnywhere) == 0 && !IsBoundary(text, at)) return {};
  const std::size_t behind = at + form.prefix.size(), end = End(text, behind, form.letters, kMostRefused);
  const std::string_view secret = text.substr(behind, end - behind);
  if (secret.size() < form.least) return {};
  if ((form.flags & kWithDigit) != 0 && !HasDigit(secret)) return {};
  if ((form.flags & kMixed) != 0 && !IsMixed(secret)) return {};
  if ((form.flags & kWhole) != 0 && (secret.size() > form.least || End(text, end, kAlnum) != end)) return {};
  return {(form.flags & kKeepPrefix) != 0 ? behind : at, End(text, end, form.letters)};
}

// abc1Q~...
Span Azure(std::string_view text, std::size_t at) {
  const std::size_t begin = Begin(text, at, kAlnum | kUnderscore | kDot | kOther, 4);
  if (at - begin < 4 || !IsOf(kDigits, text[at - 1])) return {};
  const std::size_t end = End(text, at + 2, kDotted | kOther);
  return end - at >= 32 ? Span{begin, end} : Span{};
}

// 32 digits of hexadecimal, "-us" and a number.
Span Mailchimp(std::string_view text, std::size_t at) {
  if (at + 2 >= text.size() || text[at + 1] != 'u' || text[at + 2] != 's') return {};
  const std::size_t begin = Begin(text, at, kHex, 32), end = End(text, at + 3, kDigits, 3);
  return at - begin == 32 && end > at + 3 && end < at + 6 ? Span{begin, end} : Span{};
}

// 123456789:AA...
Span Telegram(std::string_view text, std::size_t at) {
  const std::size_t begin = Begin(text, at, kDigits, 16), end = End(text, at + 1, kWord);
  return at - begin >= 5 && end - at >= 35 && text[at + 1] == 'A' ? Span{begin, end} : Span{};
}

// 24 letters, 6 and 27; 14 letters, "atlasv1" and 60 of HashiCorp.
Span ThreeParts(std::string_view text, std::size_t at) {
  const std::size_t begin = Begin(text, at, kWord, 26);
  if (at - begin < 14) return {};
  const std::size_t middle = End(text, at + 1, kWord);
  if (middle == text.size() || text[middle] != '.') return {};
  const std::string_view second = text.substr(at + 1, middle - at - 1);
  const std::size_t end = End(text, middle + 1, kWord | kBase64), third = end - middle - 1;
  if (second == "atlasv1" && third >= 50) return {begin, end};
  if (second.size() != 6 || third < 27) return {};
  for (std::size_t from = begin; at - from >= 24; ++from)
    if (text[from] >= 'M' && text[from] <= 'O' && HasDigit(text.substr(from, at - from))) return {from, end};
  return {};
}

}  // namespace

constexpr TokenBeginnings kTokenBeginnings = [] {
  TokenBeginnings begins{};
  for (const Form& form : kForms)
    for (int third = 0; third < 256; ++third)
      if (form.prefix.size() > 2 ? form.prefix[2] == static_cast<char>(third)
                                 : (kLettersOf[static_cast<std::size_t>(third)] & form.letters) != 0) {
        const std::size_t hash = HashOfThree(form.prefix[0], form.prefix[1], static_cast<char>(third));
        begins[hash / 64] |= std::uint64_t{1} << (hash % 64);
      }
  return begins;
}();

bool IsBoundary(std::string_view text, std::size_t at) {
  if (at == 0 || !IsOf(kAlnum, text[at - 1])) return true;
  const auto back = [&](std::size_t by) { return at >= by ? text[at - by] : '\0'; };
  if (back(2) == '\\' && std::string_view("nrtbf0").find(back(1)) != std::string_view::npos) return true;
  const bool hex = IsOf(kHex, back(1)) && IsOf(kHex, back(2));
  if (hex && (back(3) == '%' || (back(3) == 'x' && back(4) == '\\'))) return true;
  if (hex && IsOf(kHex, back(3)) && IsOf(kHex, back(4)) && back(5) == 'u' && back(6) == '\\') return true;
  std::size_t begin = at - 1;  // ESC [ 1 ; 31 m
  while (begin > 0 && at - begin < 16 && (IsOf(kDigits, text[begin - 1]) || text[begin - 1] == ';')) --begin;
  return begin >= 2 && text[begin - 1] == '[' && text[begin - 2] == '\x1b';
}

bool LooksRandom(std::string_view text) {
  constexpr std::size_t kShortest = 8, kFewest = 7, kEnough = 64;
  text = text.substr(0, std::min(kEnough, text.find('*')));  // what is hidden already says nothing
  if (text.size() < kShortest || text.front() == '/') return false;
  std::array<bool, 256> seen{};
  std::size_t different = 0, changes = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && IsOf(kAlnum, text[at]) && IsOf(kAlnum, text[end])) ++end;
    for (std::size_t i = at; i < end && !IsSubstitute(text.substr(at, end - at)); ++i) {
      bool& known = seen[static_cast<unsigned char>(text[i])];
      different += known ? 0 : 1;
      known = true;
      changes += i > at && IsOf(kDigits, text[i]) != IsOf(kDigits, text[i - 1]) ? 1 : 0;
    }
    at = end;
  }
  return different >= kFewest && changes >= 2;
}

Span TokenAt(std::string_view text, std::size_t at) {
  if (!MayBeginToken(text, at)) return {};
  for (std::size_t i = kFirst[static_cast<unsigned char>(text[at])];
       i < kSorted.size() && kSorted[i].prefix[0] == text[at]; ++i)
    if (kSorted[i].prefix[1] == text[at + 1])
      if (const Span found = Match(kSorted[i], text, at); !found.empty()) return found;
  return {};
}

Span TokenAround(std::string_view text, std::size_t at) {
  if (text[at] == '.') return ThreeParts(text, at);
  if (text[at] == ':') return Telegram(text, at);
  if (text[at] == '-') return Mailchimp(text, at);
  return text.compare(at, 2, "Q~") == 0 ? Azure(text, at) : Span{};
}

}  // namespace ncclwatch::settings
