// Secrets, host names, addresses, paths and arguments made unreadable. A substitute is as long as what it stands for,
// so that a black box keeps its layout, and one word has one substitute everywhere, so that a diagnosis still makes
// sense.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "analyzer/bundle/pieces.h"

namespace ncclwatch::analyzer {

// What stands for which word. That most words stand for themselves is known from their first and last letter and
// length.

class Words {
 public:
  // What is there already stays.
  void Put(std::string_view word, std::string_view substitute) {
    if (word.empty()) return;
    words_.emplace(word, substitute);
    begins_[Of(word.front())] = true;
    shapes_[Shape(word)] = true;
  }
  bool MayBegin(char first) const { return begins_[Of(first)]; }
  bool MayHold(std::string_view word) const { return !word.empty() && shapes_[Shape(word)]; }
  // Null: it is not known.
  const std::string* Find(std::string_view word) const {
    if (!MayHold(word)) return nullptr;
    const auto found = words_.find(word);
    return found == words_.end() ? nullptr : &found->second;
  }

 private:
  static constexpr std::size_t kShapes = 8192;
  static std::size_t Of(char c) { return static_cast<unsigned char>(c); }
  static std::size_t Shape(std::string_view word) {
    return (Of(word.front()) * 37 + Of(word.back()) * 1031 + word.size() * 131) % kShapes;
  }

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  std::unordered_map<std::string, std::string, Hash, std::equal_to<>> words_;
  std::array<bool, 256> begins_{};
  std::array<bool, kShapes> shapes_{};
};

class Redactor {
 public:
  // Names of secrets beside those that everybody knows (NCCLWATCH_REDACT).
  explicit Redactor(std::string secret_names = "");

  // A host as the job or the system names it, with its domain or without.
  void LearnHost(std::string_view name);
  // Of somebody who has run the job.
  void LearnUser(std::string_view name);
  // Whom a text names (names_in_text.h), so that the names are known in other texts too.
  void Learn(std::string_view text);
  // Of a file of ncclwatch's own: it stays, but for the names of hosts in it, which are known by now.
  void Keep(std::string_view file);
  // Of a process: the files that it was given.
  void LearnCommand(std::string_view command);

  // Of several lines, or of strings with zero bytes between them. Beside what has been learned: secrets
  // (watchdog/settings/redact.h), absolute paths but for those of the system and the files of Python packages and
  // libraries in them, addresses (IPv4, IPv6, MAC, e-mail), hosts with their domain, hosts and paths of URLs, and what
  // follows the program in a line that begins with "command: ". A
  // substitute stands for itself.
  std::string Text(std::string_view text);
  // A document, or several, one to a line. Nothing: it is none.
  std::optional<std::string> Json(std::string_view document);
  // One document to a line; a line that is none is text.
  std::string JsonLines(std::string_view lines);
  // A black box (ncclwatch/format/black_box.h): what it says in words. Memory that lies behind it goes. False: it is
  // none, or damaged.
  bool Box(std::string* bytes);

 private:
  void Word(std::string_view word, bool may_be_address, std::string* made);
  void Word(const Piece& piece, std::string_view text, std::string* made);
  std::optional<std::string> Substituted(std::string_view word, std::size_t at, bool may_be_address, std::size_t* end);
  std::string UrlHost(std::string_view name);
  std::string Path(std::string_view path);
  std::string Folder(std::string_view name);
  std::string File(std::string_view name);
  std::string Address(std::string_view address);
  // `kept`: letters at its end that stay.
  std::string Substitute(std::string_view word, char kind, std::size_t kept = 0);
  std::string Make(std::size_t length, char kind, std::string_view ending);
  std::string Command(std::string_view command);
  std::optional<std::string> JsonLine(std::string_view line, int indent);
  void InPlace(std::uint64_t offset, std::uint64_t length, std::string* bytes);
  void LearnFamily(std::string_view host);
  bool IsOfFamily(std::string_view part) const;

  const std::string secret_names_;
  Words substitutes_;                      // wherever they stand
  Words folders_;                          // in paths, names before an @: where they can be nothing else
  Words families_;                         // of hosts, "node00" of node17
  std::map<std::size_t, unsigned> given_;  // substitutes so far, by their length
};

}  // namespace ncclwatch::analyzer
