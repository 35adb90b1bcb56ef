// Work between and beneath the calls, as another tool recorded it: kernels and copies of a GPU, phases of a program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ncclwatch/format/note.h"

namespace ncclwatch::reader {

enum class OperationKind : std::uint8_t { kCompute, kCopy, kCommunication, kStep };
inline constexpr std::string_view kOperationKinds[] = {"compute", "copy", "communication", "step"};

struct Operation {
  std::int64_t began_ns = 0;  // CLOCK_MONOTONIC of its box
  std::int64_t duration_ns = 0;
  std::int64_t step = format::kNoStep;
  std::uint64_t lane = 0;   // operations of one lane run one after another: a stream, a thread
  std::uint64_t meets = 0;  // operations with this number are one communication, on whatever rank; 0: of its call
  std::uint64_t call = 0;   // slot + 1 of the recorded call that it carries out, 0: none
  std::uint64_t bytes = 0;
  std::uint32_t name = 0;  // place in Operations::names: what it is reported as
  std::uint32_t like = 0;  // likewise: operations of this name are expected to take equally long
  OperationKind kind{};
  std::vector<std::uint32_t> after;  // places in Operations::all that it waits for, besides the one before it
};

// Of one process.
struct Operations {
  std::vector<Operation> all;
  std::vector<std::string> names;
  bool ordered = false;  // `after` tells all that an operation waits for: lanes order nothing
};

}  // namespace ncclwatch::reader
