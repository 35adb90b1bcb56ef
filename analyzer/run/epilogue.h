// After the job: its diagnosis, from a leader if one made it, else from the boxes and from what was seen from outside.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/run/deaths.h"

namespace ncclwatch::analyzer {

struct Epilogue {
  bool watched = false;  // some process left a black box
  bool fault = false;
  std::string json;      // the diagnosis, also of a healthy job
};

// Says the diagnosis on stderr, once: where a leader has said it, only where it lies. `status` is the job's own.
Epilogue Conclude(Deaths* deaths, int status, bool say);

}  // namespace ncclwatch::analyzer
