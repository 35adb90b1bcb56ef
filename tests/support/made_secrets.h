// Secrets of well-known forms, made anew, as long as their services issue them. None stands in the sources, where a
// scanner of repositories would report it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ncclwatch::tests {

struct Form {
  std::string_view beginning, letters;
  std::size_t length;  // of what follows the beginning
  std::string_view end;
};

inline constexpr std::string_view kHex = "0123456789abcdef", kLarge = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
                                  kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
                                  kAlnum = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
                                  kWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

// By the expressions of gitleaks (cmd/generate/config/rules) and detect-secrets (detect_secrets/plugins).
inline constexpr Form kForms[] = {
    {"hf_", kLetters, 34, ""},
    {"api_org_", kLetters, 34, ""},
    {"sk-ant-api03-", kWord, 93, "AA"},
    {"sk-proj-", kWord, 74, "T3BlbkFJ"},
    {"sk-", kAlnum, 20, "T3BlbkFJ12345678901234567890"},
    {"ghp_", kAlnum, 36, ""},
    {"gho_", kAlnum, 36, ""},
    {"ghs_", kAlnum, 36, ""},
    {"github_pat_", kAlnum, 82, ""},
    {"glpat-", kWord, 20, ""},
    {"glrt-", kWord, 20, ""},
    {"glptt-", kHex, 40, ""},
    {"AKIA", kLarge, 16, ""},
    {"ASIA", kLarge, 16, ""},
    {"AIza", kWord, 35, ""},
    {"xoxb-1234567890-1234567890-", kAlnum, 24, ""},
    {"xoxp-1234567890-1234567890-1234567890-", kAlnum, 30, ""},
    {"https://hooks.slack.com/services/T0/B0/", kAlnum, 40, ""},
    {"eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJ", kAlnum, 40, ".c2ln_bmF0dXJl"},
    {"npm_1", kAlnum, 35, ""},
    {"pypi-AgEIcHlwaS5vcmc", kWord, 80, ""},
    {"sk_live_", kAlnum, 24, ""},
    {"dop_v1_", kHex, 64, ""},
    {"dapi", kHex, 32, ""},
    {"SK", kHex, 32, ""},
    {"SG.", kWord, 22, ".0123456789012345678901234567890123456789012"},
    {"lin_api_", kAlnum, 40, ""},
    {"glsa_", kAlnum, 32, "_0a1b2c3d"},
    {"hvs.1", kWord, 90, ""},
    {"PMAK-", kHex, 24, "-0123456789012345678901234567890123"},
    {"shpat_", kHex, 32, ""},
    {"pplx-", kAlnum, 48, ""},
    {"pul-", kHex, 40, ""},
    {"rubygems_", kHex, 48, ""},
    {"AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58, ""},
    {"1234567890:AA", kWord, 33, ""},
    {"", kHex, 32, "-us12"},
    {"M1", kWord, 23, ".abcdef.012345678901234567890123456"},
};

// `draw` gives numbers.
template <class Draw>
std::string MadeSecret(const Form& form, Draw draw) {
  std::string secret(form.beginning);
  for (std::size_t i = 0; i < form.length; ++i) secret += form.letters[draw() % form.letters.size()];
  return secret.append(form.end);
}

}  // namespace ncclwatch::tests
