// Each field of a diagnosis is in its list (model/fields.h), and comes back from every form: leaders' bytes and JSON.
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <utility>

#include "analyzer/jobs/diagnosis_json.h"
#include "core/model/fields.h"
#include "core/nodes/diagnosis_code.h"
#include "core/report/render.h"

namespace ncclwatch::diagnosis {
namespace {

// ---- how many members a struct has: so many values can initialize it ----

struct Any {
  template <typename T>
  constexpr operator T() const noexcept;
};
template <typename T, std::size_t... I>
constexpr bool Takes(std::index_sequence<I...>) {
  return requires { T{((void)I, std::declval<Any>())...}; };
}
template <typename T, std::size_t N = 0>
constexpr std::size_t Members() {
  if constexpr (Takes<T>(std::make_index_sequence<N + 1>()))
    return Members<T, N + 1>();
  else
    return N;
}

struct Counter {
  std::size_t fields = 0;
  template <typename T>
  void operator()(const char*, T&, Form = Form::kPlain) {
    ++fields;
  }
  void Group(const char*, const auto& group) { group(); }
  void Derived(const char*, const auto&, Form = Form::kPlain) {}
};

template <typename T>
class ListOfFields : public testing::Test {};
using All = testing::Types<Exit, SignalWords, ExceptionWords, AllocationWords, ErrorWords, LastWords, Gpu, Culprit,
                           CommunicatorName, PeerName, SourcePlace, CallSummary, Step, Onset, Effect, SharedBy, Fact,
                           CheckedRule, IgnoredFindings, Finding, Diagnosis>;
TYPED_TEST_SUITE(ListOfFields, All);

TYPED_TEST(ListOfFields, HasAllMembers) {
  Counter counter;
  TypeParam value;
  Fields(counter, value);
  EXPECT_EQ(counter.fields, Members<TypeParam>());
}

// ---- round trips of random values ----

// Values that each form can hold: JSON has milliseconds, and no negative ranks among those that are known.
class Filler {
 public:
  explicit Filler(unsigned seed, bool internal) : random_(seed), internal_(internal) {}

  template <typename T>
  void operator()(const char*, T& value, Form form = Form::kPlain) {
    if (form == Form::kInternal && !internal_) return;
    if constexpr (HasFields<T>) {
      Fields(*this, value);
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(Below(3));
    } else if constexpr (std::is_same_v<T, bool>) {
      value = Below(2) == 1;
    } else if constexpr (std::is_same_v<T, double>) {
      value = static_cast<double>(Below(1000000)) / 1000;
    } else if constexpr (std::is_integral_v<T>) {
      value = form == Form::kTime ? static_cast<T>(Below(1u << 30) * 1000000ull) : static_cast<T>(1 + Below(16000));
    }
  }
  void operator()(const char*, std::string& text, Form form = Form::kPlain) {
    if (form != Form::kInternal || internal_) text = "t" + std::to_string(Below(1000)) + "\n\"\\\u00fc";
  }
  template <typename T>
  void operator()(const char* key, std::optional<T>& value, Form form = Form::kPlain) {
    if (form == Form::kOfSlow ? slow_ : Below(2) == 1) (*this)(key, value.emplace(), form);
    if (form == Form::kInternal && !internal_) value.reset();
  }
  template <typename T>
  void operator()(const char* key, std::vector<T>& list, Form form = Form::kPlain) {
    if (form == Form::kChecked || (form == Form::kInternal && !internal_)) return;
    for (unsigned left = Below(4); left > 0; --left) (*this)(key, list.emplace_back(), form);
    if constexpr (std::is_same_v<T, int>) std::sort(list.begin(), list.end());
    if constexpr (std::is_same_v<T, Finding>)
      for (Finding& finding : list)
        if (finding.caused_by) finding.caused_by = 0;
  }
  void operator()(const char* key, SharedBy& shared, Form) {
    if (slow_) Fields(*this, shared);
    (void)key;
  }
  void Group(const char*, const auto& group) { group(); }
  void Derived(const char*, const auto&, Form = Form::kPlain) {}

 private:
  unsigned Below(unsigned end) { return static_cast<unsigned>(random_() % end); }
  std::mt19937 random_;
  const bool internal_;
  const bool slow_ = random_() % 2 == 1;
};

Diagnosis Random(unsigned seed, bool internal) {
  Diagnosis diagnosis;
  Filler filler(seed, internal);
  Fields(filler, diagnosis);
  return diagnosis;
}

constexpr unsigned kSeeds = 300;

TEST(Fields, ComeBackFromLeaders) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    const Diagnosis diagnosis = Random(seed, true);
    nodes::Writer to;
    nodes::WriteDiagnosis(diagnosis, &to);
    nodes::Reader from(to.bytes());
    Diagnosis back;
    ASSERT_TRUE(nodes::ReadDiagnosis(&from, &back) && from.Done()) << seed;
    ASSERT_TRUE(back == diagnosis) << seed << '\n' << ToJson(diagnosis) << ToJson(back);
  }
}

TEST(Fields, ComeBackFromJson) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    const Diagnosis diagnosis = Random(seed, false);
    const auto back = analyzer::ReadDiagnosisJson(ToJson(diagnosis));
    ASSERT_TRUE(back) << seed << '\n' << ToJson(diagnosis);
    ASSERT_EQ(ToJson(*back), ToJson(diagnosis)) << seed;
    ASSERT_TRUE(*back == diagnosis) << seed << '\n' << ToJson(diagnosis);
  }
}

TEST(Fields, WhatIsNoDiagnosisIsNotRead) {
  const std::string json = ToJson(Random(3, false));
  for (const std::string& text :
       {std::string("nothing"), std::string("[]"), std::string("{}"), json.substr(0, json.size() / 2)})
    EXPECT_FALSE(analyzer::ReadDiagnosisJson(text)) << text;
  for (const char* wrong :
       {R"("notes": 5)", R"("findings": [{"kind": "unheard_of"}])", R"("findings": [{"culprits": [1.5]}])",
        R"("job": {"attempt": -1})", R"("findings": [{"began_at": "yesterday"}])", R"("job": [])"})
    EXPECT_FALSE(analyzer::ReadDiagnosisJson(std::string(R"({"schema": "ncclwatch.diagnosis/1", )") + wrong + "}"))
        << wrong;
}

}  // namespace
}  // namespace ncclwatch::diagnosis
