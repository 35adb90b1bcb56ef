#include "analyzer/stacks/names/shorten.h"

#include <cxxabi.h>

#include <cctype>
#include <cstdlib>
#include <memory>

namespace ncclwatch::stacks {
namespace {

constexpr std::size_t kShortArguments = 16;  // template arguments up to so many characters stay
constexpr std::string_view kAnonymous = "(anonymous namespace)";
constexpr std::string_view kOperator = "operator";

// The end of a bracketed stretch that begins at `at`; the end of the text if it is not closed.
std::size_t Closing(std::string_view text, std::size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '-' && at + 1 < text.size() && text[at + 1] == '>') {
      ++at;
    } else if (c == '(' || c == '<' || c == '[' || c == '{') {
      ++depth;
    } else if ((c == ')' || c == '>' || c == ']' || c == '}') && --depth == 0) {
      return at + 1;
    }
  }
  return text.size();
}

class Shortener {
 public:
  explicit Shortener(std::string_view text) : text_(text) {}

  std::string Run() {
    while (at_ < text_.size() && !done_) {
      const char c = text_[at_];
      if (text_.substr(at_).starts_with(kAnonymous))
        Keep(kAnonymous.size());
      else if (IsOperator())
        KeepOperator();
      else if (c == '<')
        Arguments();
      else if (c == '(')
        Parameters();
      else if (c == '{')
        Unnamed();
      else if (c == ' ')
        Space();
      else
        Keep(1);
    }
    return std::move(out_);
  }

 private:
  void Keep(std::size_t bytes) {
    out_ += text_.substr(at_, bytes);
    at_ += bytes;
  }

  bool IsOperator() const {
    if (!text_.substr(at_).starts_with(kOperator)) return false;
    const bool begins = at_ == 0 || text_[at_ - 1] == ':' || text_[at_ - 1] == ' ';
    const std::size_t after = at_ + kOperator.size();
    return begins && (after >= text_.size() ||
                      (std::isalnum(static_cast<unsigned char>(text_[after])) == 0 && text_[after] != '_'));
  }

  // "operator()", "operator<<", "operator new", "operator std::string"
  void KeepOperator() {
    Keep(kOperator.size());
    if (text_.substr(at_).starts_with("()") || text_.substr(at_).starts_with("[]")) return Keep(2);
    while (at_ < text_.size() && text_[at_] != '(') {
      const char c = text_[at_];
      // The brackets of operator<, <<, <=, <=> are no template arguments; of operator int<...> they would be.
      if (c == '<' && out_.back() != '<' && out_.size() > 8 && !out_.ends_with(kOperator)) return;
      Keep(1);
    }
  }

  void Arguments() {
    const std::size_t end = Closing(text_, at_);
    if (end - at_ - 2 <= kShortArguments)
      Keep(end - at_);
    else
      out_ += "<...>";
    at_ = end;
  }

  // The parameters end the name, unless they are those of a function that something is local to.
  void Parameters() {
    const std::size_t end = Closing(text_, at_);
    std::size_t after = end;
    for (const std::string_view qualifier : {" const", " volatile", " &&", " &"})
      if (text_.substr(after).starts_with(qualifier)) after += qualifier.size();
    if (text_.substr(after).starts_with("::"))
      at_ = after;
    else
      done_ = true;
  }

  void Unnamed() {  // "{lambda(int, char)#1}" -> "{lambda#1}"
    const std::size_t end = Closing(text_, at_);
    const std::string_view whole = text_.substr(at_, end - at_);
    const std::size_t open = whole.find('('), hash = whole.rfind('#');
    if (open != std::string_view::npos && hash != std::string_view::npos && open < hash)
      out_ += std::string(whole.substr(0, open)) + std::string(whole.substr(hash));
    else
      out_ += whole;
    at_ = end;
  }

  void Space() {                                // what stood before it was the type of what is returned
    if (text_.substr(at_).starts_with(" [")) {  // "[clone .part.0]", "[abi:cxx11]"
      done_ = true;
      return;
    }
    out_.clear();
    ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  bool done_ = false;
};

}  // namespace

std::string Shortened(std::string_view demangled) { return Shortener(demangled).Run(); }

std::string ReadableName(const std::string& symbol) {
  if (!symbol.starts_with("_Z")) return symbol;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  if (status != 0 || !text) return symbol;
  std::string name = Shortened(text.get());
  return name.empty() ? symbol : name;
}

}  // namespace ncclwatch::stacks
