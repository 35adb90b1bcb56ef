// The calls in which a replay's ranks are when it stops.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "ncclwatch/functions/function.h"

namespace ncclwatch::analyzer {

struct StoppedCall {
  int rank = -1;                   // of the job
  std::uint64_t communicator = 0;  // 0: none
  std::uint64_t position = 0;
  functions::Function function{};
};

nlohmann::ordered_json StoppedJson(const std::vector<StoppedCall>& stopped);

}  // namespace ncclwatch::analyzer
