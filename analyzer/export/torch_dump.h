// A job's black boxes as dumps of torch's flight recorder, version 2.10: one a rank, as its own tools read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/view/view.h"

namespace ncclwatch::analyzer::exporting {

struct TorchDump {
  std::int32_t rank = -1;
  std::string pickle;
};

struct TorchDumps {
  std::vector<TorchDump> dumps;    // by rank
  std::vector<std::string> notes;  // what they leave out, a sentence each
};

TorchDumps ToTorchDumps(const diagnosis::View& view);

}  // namespace ncclwatch::analyzer::exporting
