#include "analyzer/run/mpi/command_words.h"

#include <array>
#include <string_view>

#include "analyzer/run/mpi/surroundings.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kMostWords = 4096;  // looking at each costs a search through PATH
constexpr int kMostDepth = 4;             // shells within shells

bool IsShell(const std::string& word) {
  constexpr std::array kShells{"sh", "bash", "dash", "zsh", "ksh", "ash"};
  const std::string name = FileName(word);
  for (const char* shell : kShells)
    if (name == shell) return true;
  return false;
}

// -c, -lc, -euc
bool TakesCommand(const std::string& option) {
  return option.size() > 1 && option[0] == '-' && option[1] != '-' && option.back() == 'c';
}

// As a shell divides it, without expanding anything.
std::vector<std::string> Divided(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  const auto end = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      if (text[++i] != '\n') word += text[i];
    } else if (quote ? c == quote : c == '"' || c == '\'') {
      quote = quote ? '\0' : c;
    } else if (!quote && std::string_view(" \t\n;|&()<>").find(c) != std::string_view::npos) {
      end();
    } else {
      word += c;
    }
  }
  end();
  return words;
}

void Add(const std::vector<std::string>& command, int depth, std::vector<std::string>* words) {
  bool shell = false;
  for (std::size_t i = 0; i < command.size() && words->size() < kMostWords; ++i) {
    const bool inner = shell && TakesCommand(command[i]) && i + 1 < command.size() && depth < kMostDepth;
    words->push_back(command[i]);
    shell = shell || IsShell(command[i]);
    if (inner) Add(Divided(command[++i]), depth + 1, words);
  }
}

}  // namespace

std::vector<std::string> CommandWords(const std::vector<std::string>& command) {
  std::vector<std::string> words;
  Add(command, 0, &words);
  return words;
}

}  // namespace ncclwatch::analyzer
