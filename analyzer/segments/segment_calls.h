// A segment read call by call: all of them in memory take fifty times as much.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/nodes/call_code.h"
#include "core/reader/image.h"
#include "ncclwatch/format/segment.h"

namespace ncclwatch::analyzer {

class SegmentCalls {
 public:
  // Of all of it, checksum included.
  static absl::StatusOr<std::unique_ptr<SegmentCalls>> Open(std::string_view bytes);
  // Of the calls it has those with kHasParts; what stands behind them comes with Finish.
  reader::BoxImage image;
  // Until the next one. Null: there are no more, or only damage, as Finish says.
  const reader::Call* Next();
  void KeepAll();  // in the image, instead of giving them
  absl::Status Finish();

 private:
  explicit SegmentCalls(const format::SegmentHeader& header) : header_(header), next_slot_(header.begin_slot) {}

  const format::SegmentHeader header_;
  std::string payload_;
  nodes::Reader from_{{}};
  nodes::CallMemory memory_;
  std::uint64_t left_ = 0, next_slot_;
  bool mpi_ = false, in_order_ = true, keeps_all_ = false;
};

}  // namespace ncclwatch::analyzer
