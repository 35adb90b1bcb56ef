#include "analyzer/top/frame.h"

#include <absl/strings/str_split.h>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "analyzer/console/table.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer::top {
namespace {

constexpr const char* kHelp[] = {
    "q        leave",
    "p, space pause; again: go on",
    "s        sort by the next column: behind, rank, communicator, since, calls, bytes",
    "r        the other way round",
    "/        show some rows: ranks (0-3,7), or a part of a host, communicator, call or state",
    "escape   show all rows",
    "arrows, page up, page down, home, end",
    "",
    "BEHIND   collectives that the farthest rank of the communicator is ahead",
    "STATE    of the newest call: entered (the host is inside), returned (enqueued),",
    "         started or finished (on the GPU), failed",
    "SINCE    when that call was made",
    "",
    "`ncclwatch diagnose` tells findings in full.",
};

bool IsContinuation(char letter) { return (static_cast<unsigned char>(letter) & 0xc0) == 0x80; }

std::size_t ColumnsOf(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

std::string Clipped(std::string_view text, std::size_t width) {
  std::size_t columns = 0, bytes = 0;
  while (bytes < text.size() && (columns < width || IsContinuation(text[bytes])))
    columns += !IsContinuation(text[bytes++]);
  return std::string(text.substr(0, bytes));
}

// At spaces; what follows the first line is indented.
std::vector<std::string> Wrapped(const std::string& text, std::size_t width) {
  constexpr std::string_view kIndent = "  ";
  std::vector<std::string> lines;
  std::string line;
  for (const absl::string_view piece : absl::StrSplit(text, ' ')) {
    const std::string_view word(piece.data(), piece.size());
    if (!line.empty() && ColumnsOf(line) + 1 + ColumnsOf(word) > width) {
      lines.push_back(std::move(line));
      line = kIndent;
      line += word;
      continue;
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  lines.push_back(std::move(line));
  return lines;
}

// Columns that have room, as indices: the least telling go first.
std::vector<std::size_t> Fitting(const std::vector<std::size_t>& widths, std::size_t width) {
  std::vector<std::size_t> shown(widths.size());
  std::size_t all = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    shown[i] = i;
    all += widths[i] + (i > 0 ? 1 : 0);
  }
  while (all > width && shown.size() > 1) {
    const auto least = std::min_element(shown.begin(), shown.end(), [](std::size_t a, std::size_t b) {
      return Columns()[a].weight < Columns()[b].weight;
    });
    all -= widths[*least] + 1;
    shown.erase(least);
  }
  return shown;
}

Colour ColourOf(const Job& job, const Member& member) {
  if (!job.processes[member.process].alive && job.alive > 0) return Colour::kRed;
  return member.behind > 1 || member.state == "failed" ? Colour::kYellow : Colour::kNone;
}

std::vector<std::string> CellsOf(const Job& job, const Member& member) {
  std::vector<std::string> cells;
  for (const Column& column : Columns()) cells.push_back(Printable(column.text(job, member)));
  return cells;
}

std::string LineOf(const std::vector<std::string>& cells, const std::vector<std::size_t>& shown,
                   const std::vector<std::size_t>& widths) {
  std::string line;
  for (const std::size_t i : shown) {
    if (!line.empty()) line += ' ';
    const std::string padding(widths[i] - std::min(widths[i], ColumnsOf(cells[i])), ' ');
    line += Columns()[i].right ? padding + cells[i] : cells[i] + padding;
  }
  return line;
}

}  // namespace

bool Display::Take(const Press& press) {
  if (press.key == Key::kClosed) return false;
  if (typing_) {
    TakeFilter(press);
    return true;
  }
  to_end_ = press.key == Key::kEnd;
  switch (press.key) {
    case Key::kUp: first_ -= first_ > 0 ? 1 : 0; break;
    case Key::kDown: ++first_; break;
    case Key::kPageUp: first_ -= std::min(first_, page_); break;
    case Key::kPageDown: first_ += page_; break;
    case Key::kHome: first_ = 0; break;
    case Key::kEscape: help_ ? void(help_ = false) : choice_.filter.clear(); break;
    default: break;
  }
  if (press.letter == 'q') return false;
  TakeLetter(press.letter);
  return true;
}

void Display::TakeLetter(char letter) {
  switch (letter) {
    case 'p':
    case ' ': paused_ = !paused_; break;
    case 's':
      choice_.by = choice_.by == kLastSort ? SortBy{} : static_cast<SortBy>(static_cast<int>(choice_.by) + 1);
      first_ = 0;
      break;
    case 'r': choice_.reversed = !choice_.reversed; break;
    case '/':
      typing_ = true;
      choice_.filter.clear();
      break;
    case 'h':
    case '?': help_ = !help_; break;
    default: break;
  }
}

void Display::TakeFilter(const Press& press) {
  constexpr std::size_t kLongest = 100;
  if (press.key == Key::kEnter || press.key == Key::kEscape) typing_ = false;
  if (press.key == Key::kEscape) choice_.filter.clear();
  if (press.key == Key::kBackspace && !choice_.filter.empty()) choice_.filter.pop_back();
  if (press.letter != 0 && choice_.filter.size() < kLongest) choice_.filter += press.letter;
  first_ = 0;
}

std::string Display::Footer() const {
  if (typing_) return fmt::format("show rows with: {}_  (enter, escape)", choice_.filter);
  return fmt::format("{}q leave  p pause  s sort: {}{}  / filter{}  h help", paused_ ? "PAUSED  " : "",
                     Name(choice_.by), choice_.reversed ? " reversed" : "",
                     choice_.filter.empty() ? "" : fmt::format(": {}", choice_.filter));
}

void Display::AddTable(const Job& job, std::size_t width, std::size_t height, Frame* frame) {
  const std::vector<const Member*> rows = Choose(job, choice_);
  page_ = std::max<std::size_t>(1, height - std::min<std::size_t>(height, 1));
  const std::size_t last_page = rows.size() - std::min(rows.size(), page_);
  first_ = to_end_ ? last_page : std::min(first_, last_page);
  std::vector<std::vector<std::string>> cells;
  for (std::size_t i = first_; i < std::min(rows.size(), first_ + page_); ++i) cells.push_back(CellsOf(job, *rows[i]));

  std::vector<std::size_t> widths;
  std::vector<std::string> titles;
  for (std::size_t i = 0; i < Columns().size(); ++i) {
    titles.emplace_back(Columns()[i].title);
    std::size_t widest = static_cast<std::size_t>(Columns()[i].width);
    for (const auto& row : cells) widest = std::max(widest, ColumnsOf(row[i]));
    widths.push_back(widest);
  }
  const std::vector<std::size_t> shown = Fitting(widths, width);
  frame->reversed_title = true;
  frame->title = frame->lines.size();
  frame->lines.push_back({LineOf(titles, shown, widths), Colour::kNone});
  for (std::size_t i = 0; i < cells.size(); ++i)
    frame->lines.push_back({LineOf(cells[i], shown, widths), ColourOf(job, *rows[first_ + i])});
}

Frame Display::Draw(const Job& job, const std::string& clock, std::size_t width, std::size_t height) {
  Frame frame;
  if (width == 0 || height == 0) return frame;
  for (const Line& line : HeaderOf(job, clock))
    for (std::string& part : Wrapped(line.text, width)) frame.lines.push_back({std::move(part), line.colour});
  const std::size_t body = std::max<std::size_t>(1, height - 1);  // the last line is the footer
  if (help_) {
    frame.lines.resize(std::min<std::size_t>(frame.lines.size(), 1));
    for (const char* const line : kHelp) frame.lines.push_back({line});
  } else {
    frame.lines.resize(std::min(frame.lines.size(), std::max<std::size_t>(1, body / 2)));
    if (frame.lines.size() < body) AddTable(job, width, body - frame.lines.size(), &frame);
  }
  frame.lines.resize(body);
  if (body < height) frame.lines.push_back({Footer(), Colour::kDim});
  for (Line& line : frame.lines) line.text = Clipped(line.text, width);
  return frame;
}

std::string WholeText(const Job& job) {
  std::string text;
  for (const Line& line : HeaderOf(job, "")) text += line.text + '\n';
  std::vector<Table::Column> columns;
  for (const Column& column : Columns()) columns.push_back({column.title, column.right});
  Table table(std::move(columns));
  for (const Member* const member : Choose(job, {SortBy::kRank, false, ""})) table.Add(CellsOf(job, *member));
  return text + '\n' + table.Text();
}

}  // namespace ncclwatch::analyzer::top
