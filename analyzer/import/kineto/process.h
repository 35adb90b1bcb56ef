// What one trace file tells of its process: calls of NCCL, what the GPU did, steps.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/import/base/torch_words.h"
#include "analyzer/import/base/trace.h"
#include "analyzer/import/kineto/events.h"

namespace ncclwatch::analyzer::import::kineto {

struct Step {
  std::int64_t number = 0, began_ns = 0, ended_ns = 0;
  std::uint64_t thread = 0;
};

// A window that the profiler recorded.
struct Window {
  Trace trace;                 // positions of its calls are torch's numbers, where it tells them
  std::vector<Step> steps;     // in order
  std::uint64_t unknown = 0;   // collectives whose operation is not known here
  std::uint64_t unlinked = 0;  // kernels of NCCL whose call the trace does not hold
  bool from_kernels = false;   // it holds no calls, and kernels stand for them
  absl::Status status;         // not OK: it is what could be read before this happened
};

Window ReadWindow(const std::string& path);
Window ParseWindow(std::string_view text, const std::string& path);  // a text as if it were that file's

}  // namespace ncclwatch::analyzer::import::kineto
