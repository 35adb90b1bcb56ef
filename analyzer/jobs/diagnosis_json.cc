#include "analyzer/jobs/diagnosis_json.h"

#include <absl/strings/numbers.h>
#include <absl/time/time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "analyzer/console/units.h"
#include "core/model/fields.h"

namespace ncclwatch::analyzer {
namespace {

using diagnosis::Form;
using LooseJson = nlohmann::json;

class FromKeys {
 public:
  explicit FromKeys(const LooseJson& object) : object_(&object) {}
  bool ok() const { return ok_; }

  template <typename T>
  void operator()(const char* key, T& value, Form form = Form::kPlain) {
    if (form == Form::kInternal) return;
    const auto found = object_->find(key);
    if (found != object_->end() && !found->is_null()) Value(*found, &value, form);
  }
  template <typename T>
  void operator()(const char* key, std::optional<T>& value, Form form = Form::kPlain) {
    if (form == Form::kInternal) return;
    if constexpr (diagnosis::HasFields<T>) {
      if (form == Form::kMerged) {
        T merged;
        Fields(*this, merged);
        if (merged != T()) value = std::move(merged);
        return;
      }
    }
    const auto found = object_->find(key);
    if (found != object_->end() && !found->is_null()) Value(*found, &value.emplace(), form);
  }
  template <typename Function>
  void Group(const char* key, const Function& fields) {
    const auto found = object_->find(key);
    if (found == object_->end()) return;
    if (!found->is_object()) return Fail();
    const LooseJson* const outer = std::exchange(object_, &*found);
    fields();
    object_ = outer;
  }
  template <typename T>
  void Derived(const char* /*key*/, const T& /*value*/, Form /*form*/ = Form::kPlain) {}

 private:
  void Fail() { ok_ = false; }

  template <diagnosis::HasFields T>
  void Value(const LooseJson& json, T* value, Form) {
    if (!json.is_object()) return Fail();
    const LooseJson* const outer = std::exchange(object_, &json);
    Fields(*this, *value);
    object_ = outer;
  }
  template <typename T>
  requires std::is_enum_v<T>
  void Value(const LooseJson& json, T* value, Form) {
    const auto named = json.is_string() ? diagnosis::Named<T>(json.get_ref<const std::string&>()) : std::nullopt;
    named ? void(*value = *named) : Fail();
  }
  void Value(const LooseJson& json, bool* value, Form) { json.is_boolean() ? void(*value = json.get<bool>()) : Fail(); }
  template <std::integral T>
  void Value(const LooseJson& json, T* value, Form form) {
    if (form == Form::kTime || form == Form::kHex || form == Form::kId) {
      json.is_string() && FromText(json.get<std::string>(), value, form) ? void() : Fail();
      return;
    }
    // A number that the type does not hold is damage.
    if (json.is_number_unsigned() && std::in_range<T>(json.get<std::uint64_t>()))
      *value = static_cast<T>(json.get<std::uint64_t>());
    else if (json.is_number_integer() && !json.is_number_unsigned() && std::in_range<T>(json.get<std::int64_t>()))
      *value = static_cast<T>(json.get<std::int64_t>());
    else
      Fail();
  }
  template <std::integral T>
  bool FromText(const std::string& text, T* value, Form form) {
    if (form == Form::kTime) {
      absl::Time time;
      if (!absl::ParseTime(absl::RFC3339_full, text, &time, nullptr)) return false;
      *value = static_cast<T>(absl::ToUnixNanos(time));
      return true;
    }
    std::uint64_t number = 0;
    const bool read = absl::SimpleHexAtoi(text, &number);
    *value = static_cast<T>(number);
    return read;
  }
  void Value(const LooseJson& json, double* value, Form) {
    json.is_number() ? void(*value = json.get<double>()) : Fail();
  }
  void Value(const LooseJson& json, std::string* value, Form) {
    json.is_string() ? void(*value = json.get<std::string>()) : Fail();
  }
  template <typename T>
  void Value(const LooseJson& json, std::vector<T>* value, Form form) {
    if constexpr (std::is_same_v<T, int>) {
      if (form == Form::kRankSet) {
        return json.is_string() ? RankSet(json.get<std::string>(), value) : Fail();
      }
    }
    if (!json.is_array()) return Fail();
    for (const LooseJson& item : json) Value(item, &value->emplace_back(), form);
  }

  // "0-3,7", and "?" for those that are not known.
  void RankSet(std::string text, std::vector<int>* ranks) {
    constexpr std::string_view kUnknown = "?";
    if (text.ends_with(kUnknown)) {
      ranks->push_back(-1);
      text.resize(text.size() - std::min<std::size_t>(text.size(), 2));
    }
    if (text.empty()) return;
    const auto known = ParseRanks(text);
    if (!known) return Fail();
    ranks->insert(ranks->end(), known->begin(), known->end());
  }

  const LooseJson* object_;
  bool ok_ = true;
};

}  // namespace

std::optional<diagnosis::Diagnosis> ReadDiagnosisJson(std::string_view text) {
  const LooseJson json = LooseJson::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto schema = json.find("schema");
  if (schema == json.end() || !schema->is_string() ||
      !schema->get_ref<const std::string&>().starts_with("ncclwatch.diagnosis/"))
    return std::nullopt;
  diagnosis::Diagnosis diagnosis;
  FromKeys keys(json);
  Fields(keys, diagnosis);
  if (!keys.ok()) return std::nullopt;
  return diagnosis;
}

}  // namespace ncclwatch::analyzer
