// The events of one trace of torch's profiler (Kineto), one after another, however large its file is.
#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ncclwatch::analyzer::import::kineto {

// As far as it is looked at. Instants in nanoseconds from the trace's base; numbers that are not told are -1.
struct Event {
  std::string name, category;
  std::int64_t began_ns = 0, duration_ns = 0;
  bool timed = false;         // it has a beginning and an end
  std::uint64_t process = 0;  // number; a name is a number made of it
  std::uint64_t thread = 0;

  std::int64_t correlation = -1, external = -1, device = -1, stream = -1, bytes = -1;
  std::string grid;                       // "8x1x1"
  std::string input_type;                 // of the first input that has one
  std::uint64_t input_elements = 0;       // of all inputs
  std::string collective, dtype;          // "allreduce", "Float"
  std::string group, description, ranks;  // "0", "default_pg", "[0, 1, ..., 127]"
  std::int64_t in_elements = -1, out_elements = -1, group_size = -1;
  std::int64_t rank_start = -1, rank_stride = -1, sequence = -1, source = -1, destination = -1;

  void Clear();
};

struct GroupConfig {
  std::string name, description;
  std::vector<int> ranks;  // empty: those of the whole job
  std::int64_t size = -1;
};

// What a trace says of itself, before its events or behind them.
struct TraceHeader {
  std::int64_t base_ns = 0;
  std::int64_t rank = -1, world_size = -1;
  std::string host;
  std::vector<GroupConfig> groups;
};

// Events before a place where the file is damaged or ends too early have been taken; the status names its byte.
absl::Status ReadEvents(const std::string& path, TraceHeader* header, absl::FunctionRef<void(const Event&)> take);
// Likewise of a text.
absl::Status ParseEvents(std::string_view text, TraceHeader* header, absl::FunctionRef<void(const Event&)> take);

// "[0, 1, 5]"; with ", ..., " in it or anything else that is no number: none.
std::vector<int> RanksIn(std::string_view text);

}  // namespace ncclwatch::analyzer::import::kineto
