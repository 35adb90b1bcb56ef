#include "analyzer/bundle/pieces.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "analyzer/bundle/addresses.h"
#include "analyzer/bundle/names_in_text.h"

namespace ncclwatch::analyzer {
namespace {

enum Class : std::uint8_t { kOfWord = 1, kEndsPath = 2, kHex = 4, kLetter = 8, kSpecial = 16 };

constexpr auto kClasses = [] {
  std::array<std::uint8_t, 256> classes{};
  const auto mark = [&](std::string_view letters, std::uint8_t as) {
    for (const char c : letters) classes[static_cast<unsigned char>(c)] |= as;
  };
  for (unsigned char c = 0; c <= ' '; ++c) classes[c] |= kEndsPath;
  mark("\x7f\"'`<>|;:,()[]{}=*?!&", kEndsPath);
  mark("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", kOfWord | kLetter);
  mark("0123456789", kOfWord | kHex);
  mark("_-.", kOfWord);
  mark("abcdefABCDEF", kHex);
  mark("/:\\\x1b", kSpecial);
  return classes;
}();

bool Is(std::uint8_t of, char c) { return (kClasses[static_cast<unsigned char>(c)] & of) != 0; }

// What follows in a URL says nothing about whose machine this is.
bool IsNobodys(std::string_view host) {
  return host == "localhost" || host.starts_with("127.") || host == "0.0.0.0" || IsPublicSite(host);
}

// "modprobe@fuse.service" of systemd.
bool IsUnit(std::string_view ending) {
  constexpr std::array<std::string_view, 6> kUnits{"service", "socket", "target", "mount", "slice", "timer"};
  return std::find(kUnits.begin(), kUnits.end(), ending) != kUnits.end();
}

// "file://", and what PyTorch calls a place to meet.
bool IsSchemeWithoutHost(std::string_view before) {
  for (const std::string_view scheme : {"file", "env", "unix", "shm", "jar", "data"})
    if (before.ends_with(scheme)) return true;
  return false;
}

}  // namespace

bool IsOfWord(char c) { return Is(kOfWord, c); }

Piece Pieces::Take(Piece::Kind kind, std::size_t end) {
  Piece piece;
  piece.kind = kind;
  piece.text = text_.substr(at_, end - at_);
  piece.at = at_;
  at_ = end;
  return piece;
}

Piece Pieces::Next() {
  if (at_ >= text_.size()) return {};
  const char c = text_[at_];
  const bool begins_word = at_ == 0 || !Is(kOfWord, text_[at_ - 1]);
  if (c == ':' || (Is(kHex, c) && begins_word))
    if (const std::size_t end = EndOfColonAddress(text_, at_); end > at_) return Take(Piece::Kind::kAddress, end);
  if (Is(kOfWord, c)) return Word();
  if (c == '/' && (at_ == url_path_ || BeginsPath())) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && !Is(kEndsPath, text_[end])) ++end;
    return Take(Piece::Kind::kPath, end);
  }
  return Other();
}

Piece Pieces::Word() {
  std::size_t end = at_, dots = 0;
  for (; end < text_.size() && Is(kOfWord, text_[end]); ++end) dots += text_[end] == '.' ? 1 : 0;
  const bool is_host = at_ == url_host_;
  if (is_host && IsNobodys(text_.substr(at_, end - at_))) url_path_ = std::string_view::npos;
  if (!is_host && end < text_.size() && (text_[end] == '@' || text_[end] == '+'))
    if (Piece mail = Mail(end); mail.kind != Piece::Kind::kNone) return mail;
  Piece piece = Take(is_host ? Piece::Kind::kUrlHost : Piece::Kind::kWord, end);
  piece.dots = dots;
  return piece;
}

// An e-mail address is one piece, whatever signs its first part has.
Piece Pieces::Mail(std::size_t sign) {
  constexpr std::size_t kLongestName = 64;
  while (sign < text_.size() && sign - at_ <= kLongestName && (Is(kOfWord, text_[sign]) || text_[sign] == '+')) ++sign;
  if (sign == text_.size() || text_[sign] != '@') return {};
  std::size_t last = sign + 1;
  while (last < text_.size() && Is(kOfWord, text_[last])) ++last;
  while (last > sign + 1 && !Is(kLetter, text_[last - 1])) --last;
  const std::string_view domain = text_.substr(sign + 1, last - sign - 1);
  const std::size_t dot = domain.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || domain.size() - dot < 3 || IsUnit(domain.substr(dot + 1))) return {};
  Piece piece = Take(Piece::Kind::kMail, last);
  piece.domain = domain;
  return piece;
}

// Up to what may begin something else.
Piece Pieces::Other() {
  if (text_[at_] == ':' && text_.compare(at_, 3, "://") == 0) {
    Url();
    return Take(Piece::Kind::kOther, at_ + 3);
  }
  std::size_t end = EndOfEscape(at_);
  while (end < text_.size() && !Is(kOfWord | kSpecial, text_[end])) ++end;
  return Take(Piece::Kind::kOther, end);
}

// "and/or", "3/8", "</task>" and "https://host" begin none. Of several slashes in a row the last one does.
bool Pieces::BeginsPath() const {
  if (at_ + 1 == text_.size() || text_[at_ + 1] == '/' || Is(kEndsPath, text_[at_ + 1])) return false;
  std::size_t first = at_;
  while (first > 0 && at_ - first < 8 && text_[first - 1] == '/') --first;
  if (first == 0) return true;
  const char before = text_[first - 1];
  return !Is(kOfWord, before) && before != '<' && !(before == ':' && at_ - first == 1);
}

// \n, \u00e9, ESC [ 31 m: they are no part of the word behind them. Another sign ends behind itself.
std::size_t Pieces::EndOfEscape(std::size_t at) const {
  const auto look = [&](std::size_t place) { return place < text_.size() ? text_[place] : '\0'; };
  if (text_[at] == '\\' && look(at + 1) == 'u') {
    std::size_t end = at + 2;
    while (end < at + 6 && Is(kHex, look(end))) ++end;
    return end;
  }
  if (text_[at] == '\\' && look(at + 1) != '\0' &&
      std::string_view("nrtbf").find(look(at + 1)) != std::string_view::npos)
    return at + 2;
  if (text_[at] != '\x1b' || look(at + 1) != '[') return at + 1;
  std::size_t end = at + 2;
  while (end - at < 16 && (look(end) == ';' || look(end) == '?' || (look(end) >= '0' && look(end) <= '9'))) ++end;
  return Is(kLetter, look(end)) ? end + 1 : at + 1;
}

// Where the host begins and the path of the URL whose "://" is here.
void Pieces::Url() {
  constexpr std::size_t kLongestAuthority = 320;
  url_host_ = url_path_ = std::string_view::npos;
  if (IsSchemeWithoutHost(text_.substr(0, at_))) return;
  const std::string_view rest = text_.substr(at_ + 3, kLongestAuthority);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?# \t\r\n\"'`<>\\,;"));
  const std::size_t user = authority.rfind('@');
  url_host_ = at_ + 3 + (user == std::string_view::npos ? 0 : user + 1);
  url_path_ = at_ + 3 + authority.size();
}

}  // namespace ncclwatch::analyzer
