// ncclwatch.top/1.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analyzer/top/job.h"

namespace ncclwatch::analyzer::top {

nlohmann::ordered_json ToJson(const Job& job);

}  // namespace ncclwatch::analyzer::top
