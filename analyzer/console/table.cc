#include "analyzer/console/table.h"

#include <algorithm>

#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

// Characters, not bytes: continuation bytes of UTF-8 take no column.
std::size_t Columns(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

void Table::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::Text() const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < columns_.size(); ++i) widths[i] = std::max(widths[i], Columns(row[i]));

  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (widths[i] > 0) shown.push_back(i);

  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t i : shown) {
      const std::string& cell = cell_of(i);
      const std::size_t width = std::max(widths[i], Columns(columns_[i].title));
      const std::string padding(width - Columns(cell), ' ');
      if (!line.empty()) line += "  ";
      line += columns_[i].right ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add_line([&](std::size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) add_line([&](std::size_t i) -> const std::string& { return row[i]; });
  return text;
}

}  // namespace ncclwatch::analyzer
