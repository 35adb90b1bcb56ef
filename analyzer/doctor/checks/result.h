// What a check of `ncclwatch doctor` says.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace ncclwatch::doctor {

// Ordered by how much they ask for attention.
enum class Status : std::uint8_t { kSkip, kPass, kManual, kWarn, kFail };
inline constexpr std::array<std::string_view, 5> kStatusNames = {"SKIP", "PASS", "MANUAL", "WARN", "FAIL"};
constexpr std::string_view Name(Status status) { return kStatusNames[static_cast<std::size_t>(status)]; }

struct Result {
  Status status = Status::kPass;
  std::string seen;    // what was found, as it is
  std::string reason;  // why that is no PASS; empty of a PASS
  std::string advice;  // what to do; empty of a PASS and a SKIP
};

inline Result Pass(std::string seen) { return {Status::kPass, std::move(seen), "", ""}; }
inline Result Skip(std::string reason) { return {Status::kSkip, "", std::move(reason), ""}; }
inline Result Warn(std::string seen, std::string reason, std::string advice) {
  return {Status::kWarn, std::move(seen), std::move(reason), std::move(advice)};
}
// Only where a run would fail.
inline Result Fail(std::string seen, std::string reason, std::string advice) {
  return {Status::kFail, std::move(seen), std::move(reason), std::move(advice)};
}

}  // namespace ncclwatch::doctor
