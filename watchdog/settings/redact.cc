#include "watchdog/settings/redact.h"

#include <algorithm>

#include "watchdog/settings/secret_scan.h"

namespace ncclwatch::settings {

namespace {

// What is hidden may show more: the end of a token in a URL was no end of a user's name before. Two passes are the
// rule, of which the second finds nothing.
constexpr int kMostPasses = 6;

// False: there was nothing new to hide.
bool HideOnce(std::string_view more, std::string* text) {
  SecretScan scan(*text, more);
  std::string redacted;
  std::size_t from = 0;
  for (Span secret = scan.Next(); !secret.empty(); secret = scan.Next()) {
    redacted.append(*text, from, secret.begin - from).append("***");
    from = secret.end;
  }
  if (from == 0) return false;
  redacted.append(*text, from);
  text->swap(redacted);
  return *text != redacted;
}

// In place. False: there was nothing new.
bool Hide(const Span& secret, char* text) noexcept {
  char* const begin = text + secret.begin;
  char* const end = text + secret.end;
  const bool number = std::all_of(begin, end, [](char c) { return c >= '0' && c <= '9'; });
  bool changed = false;
  for (char* c = begin; c != end; ++c) {
    if (*c == '\n' || *c == '\r' || *c == '\0') continue;
    const char hidden = number ? '0' : '*';
    changed = changed || *c != hidden;
    *c = hidden;
  }
  return changed;
}

bool HideOnce(std::string_view more, char* text, std::size_t size) noexcept {
  bool changed = false;
  SecretScan scan({text, size}, more);
  for (Span secret = scan.Next(); !secret.empty(); secret = scan.Next()) changed = Hide(secret, text) || changed;
  return changed;
}

void HideAll(std::string_view more, char* text, std::size_t size) noexcept {
  for (int pass = 0; pass < kMostPasses && HideOnce(more, text, size); ++pass) {
  }
}

}  // namespace

std::string Redacted(std::string_view text, std::string_view more) {
  std::string redacted(text);
  for (int pass = 0; pass < kMostPasses && HideOnce(more, &redacted); ++pass) {
  }
  return redacted;
}

// Only lines that had one are looked at again.
void HideSecrets(char* text, std::size_t size, std::string_view more) noexcept {
  const std::string_view whole(text, size);
  if (whole.find('\0') != std::string_view::npos) return HideAll(more, text, size);
  std::size_t from = 0, to = 0;  // such lines
  SecretScan scan(whole, more);
  for (Span secret = scan.Next(); !secret.empty(); secret = scan.Next()) {
    if (!Hide(secret, text)) continue;
    if (secret.begin >= to) {
      HideAll(more, text + from, to - from);
      from = whole.substr(to, secret.begin - to).rfind('\n') + 1;  // 0: there is none
      from += to;
    }
    if (secret.end > to) to = std::min(whole.find('\n', secret.end), size);
  }
  HideAll(more, text + from, to - from);
}

std::string CommandText(std::string_view words, bool whole, std::string_view more) {
  if (!whole) words = words.substr(0, std::min(words.size(), words.rfind('\0') + 1));
  std::string text = Redacted(words, more);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

}  // namespace ncclwatch::settings
