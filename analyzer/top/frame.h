// One screen of `ncclwatch top` as lines of text, and what the keys do to it. Knows nothing of terminals.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/top/header.h"
#include "analyzer/top/job.h"
#include "analyzer/top/rows.h"

namespace ncclwatch::analyzer::top {

enum class Key {
  kNone,
  kOther,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kBackspace,
  kResize,
  kClosed
};
struct Press {
  Key key = Key::kNone;
  char letter = 0;  // with kOther: the letter, if it is a printable one
};

struct Frame {
  std::vector<Line> lines;  // at most `height`, each at most `width` columns
  bool reversed_title = false;
  std::size_t title = 0;  // with reversed_title: the line of the table's titles
};

class Display {
 public:
  // False: the user leaves.
  bool Take(const Press& press);
  bool paused() const { return paused_; }
  Frame Draw(const Job& job, const std::string& clock, std::size_t width, std::size_t height);

 private:
  void TakeLetter(char letter);
  void TakeFilter(const Press& press);
  std::string Footer() const;
  void AddTable(const Job& job, std::size_t width, std::size_t height, Frame* frame);

  Choice choice_;
  bool paused_ = false, help_ = false, typing_ = false;
  std::size_t first_ = 0;  // row on top
  std::size_t page_ = 1;   // rows on the screen
  bool to_end_ = false;
};

// The job as text, whole.
std::string WholeText(const Job& job);

}  // namespace ncclwatch::analyzer::top
