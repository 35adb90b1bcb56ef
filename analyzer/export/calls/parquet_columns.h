// The calls of one node as columns in Arrow's layout, for parquet_writer.py: the keys of a `trace --json` line.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/export/calls/exporter.h"

namespace ncclwatch::analyzer::exporting {

// The values of one column since the last batch.
class ColumnBuffer {
 public:
  template <typename T>
  void Put(T value) {
    values_.append(reinterpret_cast<const char*>(&value), sizeof value);
    if (nulls_ > 0) AppendBit(true);
    ++rows_;
  }
  template <typename T>
  void PutNull() {
    if (nulls_++ == 0) SetBitsBefore();
    AppendBit(false);
    const T zero{};
    values_.append(reinterpret_cast<const char*>(&zero), sizeof zero);
    ++rows_;
  }
  bool all_null() const { return nulls_ == rows_; }
  std::size_t nulls() const { return nulls_; }
  const std::string& values() const { return values_; }
  const std::string& validity() const { return validity_; }  // empty: no nulls
  void Clear();

 private:
  void SetBitsBefore();
  void AppendBit(bool value) {
    if (rows_ % 8 == 0) validity_.push_back('\0');
    if (value) validity_.back() = static_cast<char>(static_cast<unsigned char>(validity_.back()) | 1u << rows_ % 8);
  }
  std::string values_, validity_;
  std::size_t rows_ = 0, nulls_ = 0;
};

// Texts of a column, by number. Empty ones are null.
class Texts {
 public:
  static constexpr std::int32_t kNull = -1;

  // `key` stands for the text, and is cheaper to look up.
  template <typename MakeText>
  std::int32_t Of(std::uint64_t key, MakeText make) {
    const auto known = by_key_.find(key);
    return known != by_key_.end() ? known->second : Learn(key, make());
  }
  std::vector<std::string> TakeNew();  // since the last time, in order of their numbers

 private:
  std::int32_t Learn(std::uint64_t key, const std::string& text);

  absl::flat_hash_map<std::uint64_t, std::int32_t> by_key_;
  absl::flat_hash_map<std::string, std::int32_t> by_text_;
  std::vector<std::string> new_;
};

class ParquetColumns {
 public:
  void Add(const MergedCall& merged, const Facts& facts, const Site* site);
  std::size_t rows() const { return rows_; }
  static nlohmann::ordered_json Schema();  // names and types, as parquet_writer.py knows them
  // Everything since the last batch: what the writer needs to know first, and the buffers that it tells the sizes of.
  struct Batch {
    nlohmann::ordered_json head;
    std::string body;
  };
  Batch Take();

 private:
  static constexpr std::size_t kMostColumns = 48;

  template <typename T>
  void Put(std::size_t column, const std::optional<T>& value) {
    value ? buffers_[column].Put(*value) : buffers_[column].PutNull<T>();
  }
  template <typename MakeText>
  void PutText(std::size_t column, std::uint64_t key, MakeText make) {
    const std::int32_t number = texts_[column].Of(key, make);
    Put(column, number == Texts::kNull ? std::nullopt : std::optional(number));
  }
  void PutIdentity(const MergedCall& merged, const Facts& facts);
  void PutArguments(const Facts& facts);
  void PutKernel(const format::KernelTime& kernel);
  void PutSite(const MergedCall& merged, const Site* site);

  std::array<ColumnBuffer, kMostColumns> buffers_;
  std::array<Texts, kMostColumns> texts_;
  std::size_t rows_ = 0;
};

}  // namespace ncclwatch::analyzer::exporting
