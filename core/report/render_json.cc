// ncclwatch.diagnosis/1: every key is always there, null where nothing is known.
#include "core/model/fields.h"
#include "core/model/text.h"
#include "core/report/json_writer.h"
#include "core/report/render.h"

namespace ncclwatch::diagnosis {
namespace {

class ToKeys {
 public:
  explicit ToKeys(JsonWriter* json, Checked checked = Checked::kLeftOut) : json_(json), checked_(checked) {}

  template <typename T>
  void operator()(const char* key, const T& value, Form form = Form::kPlain) {
    if (!Has(form)) return;
    if constexpr (requires { value.empty(); })
      if (form == Form::kIfAny && value.empty()) return;
    json_->Key(key);
    Value(value, form);
  }
  template <typename T>
  void operator()(const char* key, const std::optional<T>& value, Form form = Form::kPlain) {
    if (!Has(form)) return;
    if constexpr (HasFields<T>) {
      if (form == Form::kMerged) return Fields(*this, value ? *value : kNothing<T>);
    }
    json_->Key(key);
    if (value)
      Value(*value, form);
    else
      json_->Null();
  }
  template <typename Function>
  void Group(const char* key, const Function& fields) {
    json_->Key(key).BeginObject();
    fields();
    json_->EndObject();
  }
  template <typename T>
  void Derived(const char* key, const T& value, Form form = Form::kPlain) {
    (*this)(key, value, form);
  }

  template <HasFields T>
  void Value(const T& value, Form = Form::kPlain) {
    if constexpr (std::is_same_v<T, Finding>) slow_ = value.effect.has_value();
    json_->BeginObject();
    Fields(*this, value);
    json_->EndObject();
  }

 private:
  bool Has(Form form) const {
    return form != Form::kInternal && (form != Form::kOfSlow || slow_) &&
           (form != Form::kChecked || checked_ == Checked::kShown);
  }

  template <typename T>
  static inline const T kNothing{};

  template <typename T>
  requires std::is_enum_v<T>
  void Value(T value, Form) { json_->String(Name(value)); }
  void Value(bool value, Form) { json_->Bool(value); }
  void Value(std::signed_integral auto value, Form form) {
    if (form == Form::kTime)
      json_->String(UtcTime(value));
    else if ((form == Form::kNone && value < 0) || (form == Form::kPositive && value <= 0))
      json_->Null();
    else
      json_->Integer(value);
  }
  void Value(std::unsigned_integral auto value, Form form) {
    if (form == Form::kHex || form == Form::kId)
      json_->String(form == Form::kHex ? Hex(value) : Hex16(value));
    else if (form == Form::kPositive && value == 0)
      json_->Null();
    else
      json_->Unsigned(value);
  }
  void Value(double value, Form form) { form == Form::kSeconds ? json_->Seconds(value) : json_->Number(value); }
  void Value(const std::string& text, Form form) {
    if (form == Form::kNone && text.empty())
      json_->Null();
    else
      json_->String(text);
  }
  void Value(const std::vector<int>& ranks, Form form) {
    if (form == Form::kRankSet) {
      json_->String(RankSet(ranks));
      return;
    }
    if (form == Form::kRanksOrNone && ranks.empty()) {
      json_->Null();
      return;
    }
    json_->BeginLine();
    for (const int rank : ranks)
      if (rank >= 0) json_->Integer(rank);
    json_->EndArray();
  }
  template <typename T>
  void Value(const std::vector<T>& list, Form form) {
    json_->BeginArray();
    for (const T& item : list) Value(item, form);
    json_->EndArray();
  }

  JsonWriter* const json_;
  const Checked checked_;
  bool slow_ = false;  // of the finding under way
};

}  // namespace

std::string ToJsonLine(const Finding& finding) {
  JsonWriter json(JsonWriter::Layout::kOneLine);
  ToKeys(&json).Value(finding);
  std::string line = json.Take();
  line.erase(line.find_last_not_of('\n') + 1);
  return line;
}

std::string ToJson(const Diagnosis& diagnosis, Checked checked) {
  JsonWriter json;
  ToKeys(&json, checked).Value(diagnosis);
  return json.Take();
}

}  // namespace ncclwatch::diagnosis
