#include "watchdog/settings/redact.h"

#include <algorithm>
#include <array>

#include "watchdog/settings/words.h"

namespace ncclwatch::settings {
namespace {

constexpr std::string_view kHidden = "***";
constexpr std::size_t kShortestKey = 20;  // of words that are known by their beginning

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsLarge(char c) { return c >= 'A' && c <= 'Z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsOfName(char c) { return IsLetter(c) || IsDigit(c) || c == '_' || c == '-' || c == '.'; }
bool IsBlank(char c) { return c == ' ' || c == '\t'; }
bool IsQuote(char c) { return c == '"' || c == '\'' || c == '`'; }
bool EndsWord(char c) { return c == '\0' || c == '\n' || c == '\r' || IsBlank(c); }
bool EndsValue(char c) {
  return EndsWord(c) || IsQuote(c) || std::string_view(";&|,)}]").find(c) != std::string_view::npos;
}

std::string Small(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = IsLarge(c) ? static_cast<char>(c - 'A' + 'a') : c == '-' ? '_' : c;
  return small;
}

// token of hf_token, secret of clientSecret.
std::string LastPart(std::string_view name) {
  std::size_t begin = name.size();
  while (begin > 0 && (IsLetter(name[begin - 1]) || IsDigit(name[begin - 1]))) {
    --begin;
    if (IsLarge(name[begin]) && begin > 0 && IsLetter(name[begin - 1]) && !IsLarge(name[begin - 1])) break;
  }
  return Small(name.substr(begin));
}

// The scanner keeps what it has passed, and stars for what it hides.
class Redactor {
 public:
  Redactor(std::string_view text, std::string_view more)
      : text_(text), more_(more), divided_(text.find('\0') != std::string_view::npos) {}

  std::string Run() {
    while (at_ < text_.size()) {
      if (text_.substr(at_).starts_with("://"))
        Url();
      else if (IsOfName(text_[at_]) && (at_ == 0 || !IsOfName(text_[at_ - 1])))
        Name();
      else
        Pass(1);
    }
    return std::move(out_);
  }

 private:
  void Pass(std::size_t bytes) {
    out_ += text_.substr(at_, bytes);
    at_ = std::min(text_.size(), at_ + bytes);
  }
  void Hide(std::size_t end) {
    if (end == at_) return;
    out_ += kHidden;
    at_ = end;
  }
  char Look(std::size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  std::size_t End(std::size_t at, bool (*ends)(char)) const {
    while (at < text_.size() && !ends(text_[at])) ++at;
    return at;
  }
  // A whole word of a command line whose words are told apart by zero bytes.
  bool BeginsWord(std::size_t at) const { return divided_ && (at == 0 || text_[at - 1] == '\0'); }

  void Url() {
    Pass(3);
    std::size_t end = at_, user_end = std::string_view::npos;
    for (; end < text_.size() && !EndsWord(text_[end]) && !IsQuote(text_[end]); ++end) {
      if (text_[end] == '/' || text_[end] == '?' || text_[end] == '#') break;
      if (text_[end] == '@') user_end = end;
    }
    if (user_end != std::string_view::npos) Hide(user_end);
  }

  void Name() {
    const std::size_t begin = at_, end = End(at_, [](char c) { return !IsOfName(c); });
    const std::string_view name = text_.substr(begin, end - begin);
    if (IsWellKnownKey(name)) return Hide(end);
    Pass(name.size());
    if (!IsSecretName(name, more_)) return;
    std::size_t next = end;
    if (IsQuote(Look(next))) ++next;  // "token": "x"
    const std::size_t blanks = End(next, [](char c) { return !IsBlank(c); });
    const char sign = Look(next) == '=' ? '=' : Look(blanks);
    if (sign == '=' && Look(next) == '=')
      Value(next + 1, BeginsWord(begin));
    else if (sign == ':' && !text_.substr(blanks).starts_with("://"))
      Value(End(blanks + 1, [](char c) { return !IsBlank(c); }), BeginsWord(begin));
    else if (name.starts_with('-') && next == end && end < text_.size() && EndsWord(text_[end]) && Look(end + 1) != '-')
      Value(end + 1, BeginsWord(end + 1));
  }

  // A secret that begins here; `whole`: it ends only where its word does.
  void Value(std::size_t begin, bool whole) {
    Pass(begin - at_);
    if (IsQuote(Look(begin))) {
      const char quote = text_[begin];
      Pass(1);
      const std::size_t end = text_.find(quote, at_);
      return Hide(std::min(end, std::min(text_.find('\0', at_), text_.size())));
    }
    if (whole) return Hide(End(at_, [](char c) { return c == '\0'; }));
    const std::size_t end = End(at_, EndsValue);
    for (const std::string_view scheme : {"bearer", "basic", "token", "digest"})
      if (IsBlank(Look(end)) && Same(text_.substr(at_, end - at_), scheme)) return Hide(End(end + 1, EndsValue));
    Hide(end);
  }

  static bool IsWellKnownKey(std::string_view word) {
    constexpr std::array<std::string_view, 12> kBeginnings{"hf_",    "sk-",   "ghp_",  "gho_", "ghs_", "github_pat_",
                                                           "glpat-", "xoxb-", "xoxp-", "AKIA", "ASIA", "eyJ"};
    return word.size() >= kShortestKey && std::any_of(kBeginnings.begin(), kBeginnings.end(),
                                                      [&](auto beginning) { return word.starts_with(beginning); });
  }

  std::string_view text_, more_;
  bool divided_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

bool IsSecretName(std::string_view name, std::string_view more) {
  while (name.starts_with('-') || name.starts_with('.')) name.remove_prefix(1);
  const std::string last = LastPart(name), small = Small(name);
  for (const std::string_view word : {"key", "keys", "pwd", "pass", "auth", "authorization", "credential",
                                      "credentials", "creds", "cookie", "passwords", "secrets"})
    if (last == word) return true;
  for (const std::string_view ending : {"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey",
                                        "secretkey", "privatekey", "authkey"})
    if (last.ends_with(ending)) return true;
  while (!more.empty())
    if (const std::string_view element = TakeElement(&more); !element.empty() && Matches(Small(element), small))
      return true;
  return false;
}

std::string Redacted(std::string_view text, std::string_view more) { return Redactor(text, more).Run(); }

std::string CommandText(std::string_view words, bool whole, std::string_view more) {
  if (!whole) words = words.substr(0, std::min(words.size(), words.rfind('\0') + 1));
  std::string text = Redacted(words, more);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

}  // namespace ncclwatch::settings
