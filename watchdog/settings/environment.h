// The variables' texts on their way into Settings, and what there is to complain of.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "watchdog/settings/settings.h"
#include "watchdog/settings/words.h"

namespace ncclwatch::settings {

// "NAME=value" for a line that is printed: without secrets, in one line of bounded length.
std::string Shown(std::string_view variable, std::string_view value);

class Environment {
 public:
  using Values = std::map<std::string_view, std::string_view, std::less<>>;
  // Values are those of the variables that are set. Complaints may be null.
  Environment(Values values, std::vector<Complaint>* complaints)
      : values_(std::move(values)), complaints_(complaints) {}

  // Empty counts as unset: that is how job scripts switch a variable back to its default.
  std::string_view Get(std::string_view variable) const {
    const auto found = values_.find(variable);
    return found == values_.end() ? std::string_view() : found->second;
  }

  void Complain(const char* variable, std::string_view what, std::string_view accepted) const {
    if (!complaints_) return;
    std::string text =
        Shown(variable, Get(variable)) + ": " + std::string(what) + "; accepted: " + std::string(accepted);
    complaints_->push_back({std::move(text), variable, std::string(accepted)});
  }

  template <typename T>
  struct Choice {
    std::string_view word;
    T value;
  };

  template <typename T, std::size_t N>
  T Choose(const char* variable, T fallback, const Choice<T> (&choices)[N], std::string_view accepted) const {
    const std::string_view value = Get(variable);
    if (value.empty()) return fallback;
    for (const Choice<T>& choice : choices)
      if (Same(value, choice.word)) return choice.value;
    Complain(variable, "not understood, the default is used", accepted);
    return fallback;
  }

  // A variable of the contract that this version does not act on.
  void OnlyDefault(const char* variable, std::initializer_list<std::string_view> harmless,
                   std::string_view accepted) const {
    const std::string_view value = Get(variable);
    if (value.empty()) return;
    for (std::string_view word : harmless)
      if (Same(value, word)) return;
    Complain(variable, "not supported by this version and ignored", accepted);
  }

 private:
  Values values_;
  std::vector<Complaint>* complaints_;
};

// Each value as it is; what is not understood becomes a complaint and the default.
Settings Parse(const Environment& environment);

}  // namespace ncclwatch::settings
