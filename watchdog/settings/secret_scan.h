// Finds the secrets of a text (redact.h), from its beginning to its end.
#pragma once

#include <cstddef>
#include <string_view>

#include "watchdog/settings/secret_name.h"
#include "watchdog/settings/token_forms.h"

namespace ncclwatch::settings {

class SecretScan {
 public:
  SecretScan(std::string_view text, std::string_view more) noexcept;
  // The next one; empty: there is no more. None overlaps another.
  Span Next() noexcept;

 private:
  Span At();
  Span Url() const;
  Span Assigned() const;
  Span Dotted();
  Span Option();
  Span OfProgram(std::string_view flag, std::size_t end);
  Span PrivateKey();

  struct Value {
    std::size_t begin;
    SecretName kind;
    bool strict;             // a command line gives it: what only may be a secret is one
    bool whole;              // it ends only where its word of a command line does
    bool parameter = false;  // of a URL
  };
  Span Find(const Value& value) const;
  Span Quoted(const Value& value, std::size_t slashes, std::size_t quote) const;
  Span Bare(const Value& value) const;
  Span Sentence(std::size_t begin) const;
  Span Bracket(const Value& value) const;
  static bool IsSecret(const Value& value, std::string_view text);
  static bool IsDoubtful(const Value& value);
  static Value Sure(Value value);
  std::size_t Most(const Value& value, std::size_t begin) const;
  bool EndsBare(std::size_t at, const Value& value) const;

  // What is hidden counts as a `*`, so that it is the same whether it has been replaced yet.
  char Look(std::size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  char Before(std::size_t at) const { return at == 0 ? '\0' : at == floor_ ? '*' : text_[at - 1]; }
  std::size_t End(std::size_t at, bool (*ends)(char)) const;
  std::size_t SkipBlanks(std::size_t at) const;
  std::size_t NameBefore(std::size_t end) const;
  std::size_t EndOfWord(std::size_t at) const;
  bool BeginsArgument(std::size_t at) const { return divided_ && (at == 0 || text_[at - 1] == '\0'); }
  std::string_view Part(std::size_t begin, std::size_t end) const { return text_.substr(begin, end - begin); }

  const std::string_view text_, more_;
  const bool divided_;  // the words of a command line, by zero bytes
  std::size_t at_ = 0, floor_ = 0;
  std::size_t end_mark_ = 0;  // of a private key: the next one, once looked for
  std::size_t searched_ = 0;  // for names of programs
  std::string_view program_;  // whose arguments these are
};

// Bounds of what is looked at in vain, so that the time stays linear whatever the text.
inline constexpr std::size_t kLongestName = 128;
inline constexpr std::size_t kMostBlanks = 32;
inline constexpr std::size_t kMostSlashes = 4;
inline constexpr std::size_t kMostDoubtful = 64;
inline constexpr std::size_t kMostInBrackets = 4096;

inline bool IsLarge(char c) { return c >= 'A' && c <= 'Z'; }
inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }
inline bool IsLetter(char c) { return IsLarge(c) || (c >= 'a' && c <= 'z'); }
inline bool IsOfName(char c) { return IsLetter(c) || IsDigit(c) || c == '_' || c == '-' || c == '.'; }
inline bool IsOfNameOrHidden(char c) { return IsOfName(c) || c == '*'; }
inline bool IsBlank(char c) { return c == ' ' || c == '\t'; }
inline bool IsQuote(char c) { return c == '"' || c == '\'' || c == '`'; }
inline bool EndsWord(char c) { return c == '\0' || c == '\n' || c == '\r' || IsBlank(c); }
inline bool IsOneOf(char c, std::string_view letters) { return letters.find(c) != std::string_view::npos; }

}  // namespace ncclwatch::settings
