// The table of token_forms.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ncclwatch::settings {

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

}  // namespace ncclwatch::settings
