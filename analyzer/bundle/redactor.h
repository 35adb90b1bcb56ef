// Host names, addresses, paths and arguments made unreadable. A substitute is as long as what it stands for, so that a
// black box keeps its layout, and one word has one substitute everywhere, so that a diagnosis still makes sense.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ncclwatch::analyzer {

class Redactor {
 public:
  // A host as the job or the system names it, with its domain or without.
  void LearnHost(std::string_view name);
  // Of somebody who has run the job.
  void LearnUser(std::string_view name);
  // Of a file of ncclwatch's own: it stays, but for the names of hosts in it, which are known by now.
  void Keep(std::string_view file);
  // Of a process: the files that it was given.
  void LearnCommand(std::string_view command);

  // Of several lines, or of strings with zero bytes between them. Beside what has been learned: absolute paths but for
  // those of the system and the files of Python packages and libraries in them, IPv4 addresses, and what follows the
  // program in a line that begins with "command: ".
  std::string Text(std::string_view text);
  // A document; where it is none, as text.
  std::string Json(std::string_view document);
  // Likewise, one to a line.
  std::string JsonLines(std::string_view lines);
  // A black box (ncclwatch/format/black_box.h): what it says in words. Memory that lies behind it goes. False: it is
  // none, or damaged.
  bool Box(std::string* bytes);

 private:
  std::string Word(std::string_view word);
  std::string Path(std::string_view path);
  std::string Folder(std::string_view name);
  std::string File(std::string_view name);
  std::string Address(std::string_view address);
  std::string Substitute(std::string_view word, char kind);
  std::string Make(std::size_t length, char kind);
  std::string Command(std::string_view command);
  void InPlace(std::uint64_t offset, std::uint64_t length, std::string* bytes);

  std::map<std::string, std::string, std::less<>> substitutes_;  // of words, wherever they stand
  std::map<std::string, std::string, std::less<>> folders_;      // in paths alone
  std::map<std::size_t, unsigned> given_;                        // substitutes so far, by their length
};

}  // namespace ncclwatch::analyzer
