#include "analyzer/import/json_text.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include <limits>
#include <vector>

namespace ncclwatch::analyzer::import {
namespace {

// What nlohmann's parser, which is not recursive, calls for each thing that it comes by.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(Tree* tree) : tree_(tree) {}

  bool null() override { return Push(Tree::kNone); }
  bool boolean(bool value) override { return Push(value ? Tree::kTrue : Tree::kFalse); }
  bool number_integer(number_integer_t value) override { return Push(tree_->Integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    const bool fits = value <= static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    return Push(fits ? tree_->Integer(static_cast<std::int64_t>(value)) : tree_->TooLarge());
  }
  bool number_float(number_float_t value, const string_t&) override { return Push(tree_->Real(value)); }
  bool string(string_t& value) override { return Push(tree_->CopyOfString(value)); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& value) override { return Push(tree_->CopyOfString(value)); }
  bool start_object(std::size_t) override { return Open(tree_->Dictionary()); }
  bool start_array(std::size_t) override { return Open(tree_->List()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    result_ = absl::DataLossError(fmt::format("no JSON, or cut short, at byte {}", at));
    return false;
  }

  absl::StatusOr<ValueId> Result() {
    if (result_.ok() && !stack_.empty()) result_ = stack_.front();
    return result_;
  }

 private:
  bool Push(ValueId value) {
    stack_.push_back(value);
    return true;
  }
  bool Open(ValueId container) {
    Push(container);
    open_.push_back(stack_.size());
    return true;
  }
  bool Close() {
    const std::size_t first = open_.back();
    open_.pop_back();
    tree_->Append(stack_[first - 1], stack_.data() + first, stack_.size() - first);
    stack_.resize(first);
    return true;
  }

  Tree* tree_;
  std::vector<ValueId> stack_;
  std::vector<std::size_t> open_;  // where the items of each open container begin
  absl::StatusOr<ValueId> result_ = Tree::kNone;
};

}  // namespace

bool LooksLikeJsonObject(std::string_view bytes) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && bytes[first] == '{';
}

absl::StatusOr<ValueId> ParseJson(std::string_view bytes, Tree* tree) {
  Builder builder(tree);
  nlohmann::json::sax_parse(bytes.data(), bytes.data() + bytes.size(), &builder);
  return builder.Result();
}

}  // namespace ncclwatch::analyzer::import
