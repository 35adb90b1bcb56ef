#include "core/nodes/diagnosis_code.h"

#include <bit>
#include <limits>

#include "core/model/fields.h"
#include "core/nodes/summary.h"

namespace ncclwatch::nodes {
namespace {

using diagnosis::Form;

constexpr std::size_t kMostLine = 1u << 16;
constexpr std::uint64_t kMostItems = 1u << 20;

// Bytes have neither keys nor what follows from other fields.
struct WithoutKeys {
  template <typename Function>
  void Group(const char* /*key*/, const Function& fields) {
    fields();
  }
  template <typename T>
  void Derived(const char* /*key*/, const T& /*value*/, Form /*form*/ = Form::kPlain) {}
};

// A field of each type, and fields of fields (model/fields.h).
class Put : public WithoutKeys {
 public:
  explicit Put(Writer* to) : to_(to) {}

  template <typename T>
  void operator()(const char* /*key*/, const T& value, Form form = Form::kPlain) {
    if constexpr (diagnosis::HasFields<T>) {
      Fields(*this, value);
    } else if constexpr (std::is_enum_v<T>) {
      to_->Text(Name(value), kMostLine);  // by name: values may be added in any order
    } else if constexpr (std::is_same_v<T, double>) {
      to_->Whole(std::bit_cast<std::uint64_t>(value));
    } else if constexpr (std::is_signed_v<T>) {
      to_->Signed(value);
    } else if (form == Form::kId) {
      to_->Whole(value);
    } else {
      to_->Number(value);
    }
  }
  void operator()(const char* /*key*/, const std::string& text, Form = Form::kPlain) { to_->Text(text, kMostLine); }
  template <typename T>
  void operator()(const char* key, const std::optional<T>& value, Form form = Form::kPlain) {
    to_->Byte(value ? 1 : 0);
    if (value) (*this)(key, *value, form);
  }
  template <typename T>
  void operator()(const char* key, const std::vector<T>& list, Form form = Form::kPlain) {
    if (form == Form::kChecked) return;
    to_->Number(list.size());
    for (const T& item : list) (*this)(key, item, form);
  }

 private:
  Writer* const to_;
};

class Get : public WithoutKeys {
 public:
  explicit Get(Reader* from) : from_(from) {}

  template <typename T>
  void operator()(const char* /*key*/, T& value, Form form = Form::kPlain) {
    if constexpr (diagnosis::HasFields<T>) {
      Fields(*this, value);
    } else if constexpr (std::is_enum_v<T>) {
      const std::optional<T> named = diagnosis::Named<T>(from_->Text(kMostLine));
      named ? void(value = *named) : void(from_->Fail());
    } else if constexpr (std::is_same_v<T, double>) {
      value = std::bit_cast<double>(from_->Whole());
    } else if constexpr (std::is_same_v<T, int>) {
      value = from_->Signed32();
    } else if constexpr (std::is_signed_v<T>) {
      value = from_->Signed();
    } else if (form == Form::kId) {
      value = static_cast<T>(from_->Whole());
    } else {
      value = static_cast<T>(from_->NumberUpTo(std::numeric_limits<T>::max()));
    }
  }
  void operator()(const char* /*key*/, std::string& text, Form = Form::kPlain) { text = from_->Text(kMostLine); }
  template <typename T>
  void operator()(const char* key, std::optional<T>& value, Form form = Form::kPlain) {
    if (from_->Byte() != 0) (*this)(key, value.emplace(), form);
  }
  // Every item takes a byte at least: what promises more than there are bytes left is damage.
  template <typename T>
  void operator()(const char* key, std::vector<T>& list, Form form = Form::kPlain) {
    if (form == Form::kChecked) return;
    std::uint64_t left = from_->NumberUpTo(kMostItems);
    if (left > from_->left()) left = from_->Fail();
    for (; left > 0 && from_->ok(); --left) {
      from_->Made(sizeof(T));
      (*this)(key, list.emplace_back(), form);
    }
  }

 private:
  Reader* const from_;
};

bool AreCausesThere(const std::vector<diagnosis::Finding>& findings) {
  for (const diagnosis::Finding& finding : findings)
    if (finding.caused_by && *finding.caused_by >= findings.size()) return false;
  return true;
}

}  // namespace

std::string WriteFindings(const std::vector<diagnosis::Finding>& findings) {
  Writer to;
  to.Byte(kWireVersion);
  Put{&to}("findings", findings);
  return to.Take();
}

std::optional<std::vector<diagnosis::Finding>> ReadFindings(std::string_view body) {
  Reader from(body);
  std::vector<diagnosis::Finding> findings;
  if (from.Byte() != kWireVersion) return std::nullopt;
  Get{&from}("findings", findings);
  if (!from.Done() || !AreCausesThere(findings)) return std::nullopt;
  return findings;
}

void WriteDiagnosis(const diagnosis::Diagnosis& diagnosis, Writer* to) { Put{to}("diagnosis", diagnosis); }

bool ReadDiagnosis(Reader* from, diagnosis::Diagnosis* diagnosis) {
  Get{from}("diagnosis", *diagnosis);
  if (!AreCausesThere(diagnosis->findings)) from->Fail();
  return from->ok();
}

}  // namespace ncclwatch::nodes
