// The incident report: one page of Markdown, under the headings of the contract.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analyzer/investigate/incident.h"

namespace ncclwatch::investigate {

std::string ToMarkdown(const Incident& incident);
nlohmann::ordered_json ToJson(const Incident& incident);

}  // namespace ncclwatch::investigate
