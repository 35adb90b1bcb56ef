#include "watchdog/settings/token_forms.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ncclwatch::settings {
namespace {

// The table of token_forms.cc.

enum Letters : std::uint16_t {
  kDigits = 1,
  kHexSmall = 2,   // a-f
  kHexLarge = 4,   // A-F
  kRestSmall = 8,  // g-z
  kRestLarge = 16,
  kUnderscore = 32,
  kDash = 64,
  kDot = 128,
  kBase64 = 256,  // + / =
  kOther = 512,   // ~ % : @

  kHex = kDigits | kHexSmall | kHexLarge,
  kSmall = kHexSmall | kRestSmall,
  kLarge = kHexLarge | kRestLarge,
  kAlnum = kDigits | kSmall | kLarge,
  kWord = kAlnum | kUnderscore | kDash,
  kDotted = kWord | kDot,
  kBase = kAlnum | kBase64 | kUnderscore | kDash,
  kToken = kBase | kDot | kOther,  // of a header or a path
};

enum Flags : std::uint8_t {
  kAnywhere = 1,    // also within a word: nothing else looks like that
  kWithDigit = 2,   // without a digit it is a word
  kKeepPrefix = 4,  // what comes before the secret
  kMixed = 8,       // small and capital letters, or digits
  kWhole = 16,      // nothing more of a word follows
};

struct Form {
  std::string_view prefix;
  std::uint16_t letters = 0;
  std::uint16_t least = 0;  // letters behind the prefix
  std::uint8_t flags = 0;
};

// The forms of gitleaks v8.30.0 (config/gitleaks.toml) and detect-secrets 1.5.0 (plugins/) that begin in a fixed way.
// The lengths are lower bounds, somewhat below what is issued today, since services change them. Rows behind the empty
// line are in neither. Forms without a beginning of their own are known by the name before them (secret_name.h).
inline constexpr Form kForms[] = {
    {"A3-", kWord, 30, kWithDigit},
    {"A3T", kLarge | kDigits, 17, 0},
    {"ABIA", kLarge | kDigits, 16, 0},
    {"ABSK", kBase, 100, 0},
    {"AC", kDigits | kHexSmall, 32, kWhole},
    {"ACCA", kLarge | kDigits, 16, 0},
    {"AGE-SECRET-KEY-1", kAlnum, 50, kAnywhere},
    {"AIza", kWord, 32, 0},
    {"AKCp", kAlnum, 60, 0},
    {"AKIA", kLarge | kDigits, 16, 0},
    {"API-", kLarge | kDigits, 24, kWithDigit},
    {"AQVN", kWord, 35, 0},
    {"ASIA", kLarge | kDigits, 16, 0},
    {"ATATT3", kBase, 60, 0},
    {"Basic ", kBase, 8, kKeepPrefix | kMixed},
    {"CLOJARS_", kAlnum, 50, kAnywhere},
    {"EAAA", kWord, 22, kWithDigit},
    {"EAAC", kAlnum, 100, 0},
    {"EAAM", kAlnum, 100, 0},
    {"EZAK", kAlnum, 50, 0},
    {"EZTK", kAlnum, 50, 0},
    {"FLWPUBK_TEST-", kWord, 12, kAnywhere},
    {"FLWSECK_TEST-", kWord, 12, kAnywhere},
    {"GR1348941", kWord, 20, kAnywhere},
    {"HRKU-AA", kWord, 50, 0},
    {"LTAI", kAlnum, 16, kWithDigit},
    {"NRAK-", kAlnum, 24, 0},
    {"NRII-", kWord, 24, 0},
    {"NRJS-", kHex, 19, 0},
    {"PMAK-", kWord, 50, 0},
    {"SG.", kBase | kDot, 40, 0},
    {"SK", kHex, 32, kWhole},
    {"ZXlK", kBase, 40, 0},
    {"api_org_", kAlnum, 20, 0},
    {"bedrock-api-key-", kBase, 20, 0},
    {"cmVmd", kAlnum, 50, 0},
    {"dapi", kHex, 32, 0},
    {"dnkey-", kBase, 60, 0},
    {"doo_v1_", kHex, 40, kAnywhere},
    {"dop_v1_", kHex, 40, kAnywhere},
    {"dor_v1_", kHex, 40, kAnywhere},
    {"dp.pt.", kAlnum, 40, 0},
    {"dt0c01.", kDotted, 60, kAnywhere},
    {"duffel_live_", kBase, 40, kAnywhere},
    {"duffel_test_", kBase, 40, kAnywhere},
    {"eyJ", kBase | kDot, 17, kWithDigit},
    {"fio-u-", kBase, 60, 0},
    {"fm1a_", kBase, 90, 0},
    {"fm1r_", kBase, 90, 0},
    {"fm2_", kBase, 90, 0},
    {"fo1_", kWord, 40, 0},
    {"gho_", kAlnum, 30, kAnywhere},
    {"ghp_", kAlnum, 30, kAnywhere},
    {"ghr_", kAlnum, 30, kAnywhere},
    {"ghs_", kAlnum, 30, kAnywhere},
    {"ghu_", kAlnum, 30, kAnywhere},
    {"github_pat_", kAlnum | kUnderscore, 40, kAnywhere},
    {"glagent-", kWord, 20, kAnywhere},
    {"glc_", kBase, 30, 0},
    {"glcbt-", kWord, 20, kAnywhere},
    {"gldt-", kWord, 20, kAnywhere},
    {"glffct-", kWord, 20, kAnywhere},
    {"glft-", kWord, 20, kAnywhere},
    {"glimt-", kWord, 20, kAnywhere},
    {"gloas-", kWord, 20, kAnywhere},
    {"glpat-", kDotted, 20, kAnywhere},
    {"glptt-", kWord, 20, kAnywhere},
    {"glrt-", kDotted, 20, kAnywhere},
    {"glsa_", kAlnum | kUnderscore, 32, 0},
    {"glsoat-", kWord, 20, kAnywhere},
    {"hf_", kAlnum, 20, 0},
    {"hooks.slack.com/services/", kToken, 20, kKeepPrefix},
    {"hooks.slack.com/triggers/", kToken, 20, kKeepPrefix},
    {"hooks.slack.com/workflows/", kToken, 20, kKeepPrefix},
    {"hvb.", kWord, 90, 0},
    {"hvs.", kWord, 20, kWithDigit},
    {"ico-", kAlnum, 32, 0},
    {"key-", kHex, 32, kWhole},
    {"lin_api_", kAlnum, 30, kAnywhere},
    {"npm_", kAlnum, 30, kWithDigit},
    {"ntn_", kAlnum, 40, 0},
    {"ops_eyJ", kBase, 100, 0},
    {"p8e-", kAlnum, 32, 0},
    {"pat", kDotted, 75, kWithDigit},
    {"pat.", kDotted, 60, kWithDigit},
    {"pnu_", kAlnum, 30, 0},
    {"pplx-", kAlnum, 40, 0},
    {"pscale_oauth_", kBase | kDot, 32, kAnywhere},
    {"pscale_pw_", kBase | kDot, 32, kAnywhere},
    {"pscale_tkn_", kBase | kDot, 32, kAnywhere},
    {"pubkey-", kHex, 32, kWhole},
    {"pul-", kHex, 40, 0},
    {"pypi-Ag", kWord, 40, kAnywhere},
    {"rdme_", kAlnum, 40, 0},
    {"rk_live_", kAlnum, 10, 0},
    {"rk_prod_", kAlnum, 10, 0},
    {"rk_test_", kAlnum, 10, kWithDigit},
    {"rubygems_", kHex, 40, kAnywhere},
    {"s.", kAlnum, 24, kWithDigit | kWhole},
    {"s-s4t2af-", kHex, 60, 0},
    {"s-s4t2ud-", kHex, 60, 0},
    {"sat.", kDotted, 60, kWithDigit},
    {"sgp_", kAlnum | kUnderscore, 40, 0},
    {"sha256~", kWord, 40, 0},
    {"shippo_live_", kHex, 40, kAnywhere},
    {"shippo_test_", kHex, 40, kAnywhere},
    {"shpat_", kHex, 30, kAnywhere},
    {"shpca_", kHex, 30, kAnywhere},
    {"shppa_", kHex, 30, kAnywhere},
    {"shpss_", kHex, 30, kAnywhere},
    {"sk-", kWord, 17, kWithDigit},
    {"sk_live_", kAlnum, 10, 0},
    {"sk_prod_", kAlnum, 10, 0},
    {"sk_test_", kAlnum, 10, kWithDigit},
    {"sl.", kBase, 100, 0},
    {"sm_aat_", kAlnum, 16, 0},
    {"sm_pat_", kAlnum, 16, 0},
    {"sm_sat_", kAlnum, 16, 0},
    {"sntrys_eyJ", kBase, 20, kAnywhere},
    {"sntryu_", kHex, 40, kAnywhere},
    {"sq0atp-", kWord, 20, 0},
    {"sq0csp-", kWord, 20, 0},
    {"t1.", kBase | kDot, 80, 0},
    {"tfp_", kBase | kDot, 50, 0},
    {"tk-us-", kWord, 40, 0},
    {"v1.0-", kHex | kDash, 100, 0},
    {"webhook.office.com/webhookb2/", kToken, 20, kKeepPrefix},
    {"xapp-", kWord, 10, kWithDigit},
    {"xkeysib-", kWord, 60, 0},
    {"xoxa-", kWord, 8, 0},
    {"xoxb-", kWord, 8, 0},
    {"xoxe-", kWord, 8, 0},
    {"xoxe.xox", kWord, 20, kWithDigit},
    {"xoxo-", kWord, 8, 0},
    {"xoxp-", kWord, 8, 0},
    {"xoxr-", kWord, 8, 0},
    {"xoxs-", kWord, 8, 0},

    {"BASIC ", kBase, 8, kKeepPrefix | kMixed},
    {"Bearer ", kBase | kDot, 8, kKeepPrefix | kWithDigit},
    {"GOCSPX-", kWord, 20, 0},
    {"basic ", kBase, 8, kKeepPrefix | kMixed},
    {"bearer ", kBase | kDot, 8, kKeepPrefix | kWithDigit},
    {"dckr_pat_", kWord, 20, 0},
    {"discord.com/api/webhooks/", kToken, 20, kKeepPrefix},
    {"gsk_", kAlnum, 30, 0},
    {"nvapi-", kWord, 40, 0},
    {"r8_", kAlnum, 30, kWithDigit},
    {"whsec_", kBase, 24, 0},
    {"xai-", kAlnum, 40, 0},
    {"ya29.", kWord, 20, kWithDigit},
};

constexpr std::uint16_t LettersOf(unsigned char c) {
  if (c >= '0' && c <= '9') return kDigits;
  if (c >= 'a' && c <= 'z') return c <= 'f' ? kHexSmall : kRestSmall;
  if (c >= 'A' && c <= 'Z') return c <= 'F' ? kHexLarge : kRestLarge;
  if (c == '_') return kUnderscore;
  if (c == '-') return kDash;
  if (c == '.') return kDot;
  if (c == '+' || c == '/' || c == '=') return kBase64;
  return c == '~' || c == '%' || c == ':' || c == '@' ? kOther : 0;
}

inline constexpr auto kLettersOf = [] {
  std::array<std::uint16_t, 256> letters{};
  for (std::size_t c = 0; c < letters.size(); ++c) letters[c] = LettersOf(static_cast<unsigned char>(c));
  return letters;
}();

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
