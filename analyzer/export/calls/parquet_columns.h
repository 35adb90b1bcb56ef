// The calls of one node as columns in Arrow's layout, for parquet_writer.py: the keys of a `trace --json` line.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/export/calls/exporter.h"
#include "analyzer/files/byte_buffer.h"

namespace ncclwatch::analyzer::exporting {

// The values of one column since the last batch.
class ColumnBuffer {
 public:
  template <typename T>
  void Put(T value) {
    if (nulls_ > 0) {
      if (all_null()) WriteNulls(sizeof value);
      AppendBit(true);
    }
    values_.PutValue(value);
    ++rows_;
  }
  template <typename T>
  void PutNull() {
    if (!all_null()) {
      if (nulls_ == 0) SetBitsBefore();
      AppendBit(false);
      values_.PutValue(T{});
    }
    ++nulls_;
    ++rows_;
  }
  bool all_null() const { return nulls_ == rows_; }  // none is written yet
  std::size_t nulls() const { return nulls_; }
  std::string_view values() const { return values_.view(); }
  std::string_view validity() const { return validity_.view(); }  // empty: no nulls
  void Clear();

 private:
  void SetBitsBefore();
  void WriteNulls(std::size_t value_bytes);
  void AppendBit(bool value) {
    if (rows_ % 8 == 0) validity_.Put('\0');
    char& bits = *validity_.At(validity_.size() - 1);
    if (value) bits = static_cast<char>(static_cast<unsigned char>(bits) | 1u << rows_ % 8);
  }
  ByteBuffer values_, validity_;
  std::size_t rows_ = 0, nulls_ = 0;
};

// Texts of a column, by number. Empty ones are null.
class Texts {
 public:
  static constexpr std::int32_t kNull = -1;

  // `key` stands for the text, and is cheaper to look up.
  template <typename MakeText>
  std::int32_t Of(std::uint64_t key, MakeText make) {
    if (key == last_key_) return last_;
    const auto known = by_key_.find(key);
    last_ = known != by_key_.end() ? known->second : Learn(key, make());
    last_key_ = key;
    return last_;
  }
  std::vector<std::string> TakeNew();  // since the last time, in order of their numbers

 private:
  std::int32_t Learn(std::uint64_t key, const std::string& text);

  absl::flat_hash_map<std::uint64_t, std::int32_t> by_key_;
  absl::flat_hash_map<std::string, std::int32_t> by_text_;
  std::vector<std::string> new_;
  std::optional<std::uint64_t> last_key_;
  std::int32_t last_ = kNull;
};

class ParquetColumns {
 public:
  void Add(const MergedCall& merged, const Facts& facts, const Site* site);
  std::size_t rows() const { return rows_; }
  static nlohmann::ordered_json Schema();  // names and types, as parquet_writer.py knows them
  // Everything since the last batch: what the writer needs to know first, and the buffers that it tells the sizes of.
  struct Batch {
    nlohmann::ordered_json head;
    ByteBuffer body;
  };
  Batch Take();

 private:
  static constexpr std::size_t kMostColumns = 64;

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
