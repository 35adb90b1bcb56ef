// A text as pieces of which each may name somebody: words, paths, addresses.
#pragma once

#include <cstddef>
#include <string_view>

namespace ncclwatch::analyzer {

// Letters, digits, `_`, `-` and `.`.
bool IsOfWord(char c);

struct Piece {
  enum class Kind {
    kNone,   // the text has ended
    kOther,  // signs, escape sequences
    kWord,
    kPath,     // absolute, or of a URL whose host is private
    kAddress,  // IPv6, MAC
    kMail,
    kUrlHost,  // a word too
  };
  Kind kind = Kind::kNone;
  std::string_view text;
  std::size_t dots = 0;     // of a word
  std::size_t at = 0;       // where it begins
  std::string_view domain;  // of kMail: what is behind its @
};

class Pieces {
 public:
  explicit Pieces(std::string_view text) : text_(text) {}
  Piece Next();

 private:
  Piece Take(Piece::Kind kind, std::size_t end);
  Piece Word();
  Piece Mail(std::size_t sign);
  Piece Other();
  bool BeginsPath() const;
  std::size_t EndOfEscape(std::size_t at) const;
  void Url();

  const std::string_view text_;
  std::size_t at_ = 0;
  std::size_t url_host_ = std::string_view::npos, url_path_ = std::string_view::npos;
};

}  // namespace ncclwatch::analyzer
