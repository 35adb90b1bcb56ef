// Aligned columns for a terminal: as wide as the widest cell, the last column unpadded.
#pragma once

#include <string>
#include <vector>

namespace ncclwatch::analyzer {

class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;  // numbers
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void Add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Columns in which no row has anything are left out.
  std::string Text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ncclwatch::analyzer
