// What whoever restarts the job should do first.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ncclwatch::analyzer {

struct Restart {
  std::string_view advice;  // restart, without_hosts, fix_first, wait
  std::vector<std::string> hosts;
  std::string why;
};

// By what failed: a category of the contract; empty: nobody knows. `own` is the advice of a rule, empty if it has none.
// `attempts`: of the job in which the same thing failed.
Restart RestartAdvice(std::string_view category, std::string_view own, std::vector<std::string> hosts, int attempts);

std::string RestartText(const Restart& restart);  // what to do, and why, without a line end
// nullopt: null.
nlohmann::ordered_json RestartJson(const std::optional<Restart>& restart);

}  // namespace ncclwatch::analyzer
