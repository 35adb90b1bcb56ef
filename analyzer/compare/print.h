// A comparison, for people and as JSON (contract: `ncclwatch compare`).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "analyzer/compare/first_difference.h"
#include "analyzer/compare/verdict.h"

namespace ncclwatch::compare {

std::string ToText(const Comparison& comparison, const std::optional<FirstDifference>& first);
nlohmann::ordered_json ToJson(const Comparison& comparison, const std::optional<FirstDifference>& first);

}  // namespace ncclwatch::compare
