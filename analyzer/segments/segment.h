// One segment of a recording, written and read (ncclwatch/format/segment.h). Pure; nothing here trusts a byte.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/reader/image.h"
#include "ncclwatch/format/segment.h"

namespace ncclwatch::analyzer {

// `image` has the calls that [begin, end) of its slots still held. std::bad_alloc.
std::string ToSegment(const reader::BoxImage& image, std::uint64_t begin, std::uint64_t end, bool last);

struct SlotRange {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t count() const { return end - begin; }
};

// Of a communicator what a reader wants to know before it reads calls.
struct IndexedCommunicator {
  std::uint64_t id = 0, parent = 0, parent_ordinal = 0;
  std::string label;
  std::uint32_t rank = 0, size = 0, flags = 0;
  std::int32_t color = 0;
};

struct SegmentIndex {
  format::SegmentHeader header;
  std::string host, boot_id;
  std::vector<IndexedCommunicator> communicators;  // of its calls
  std::vector<SlotRange> lost;
};

// Of the first bytes of a segment, at least the header; `available` bytes follow in the file, these included. The
// checksum is not looked at.
absl::StatusOr<format::SegmentHeader> ReadSegmentHeader(std::string_view bytes, std::uint64_t available);
// Of header and index.
absl::StatusOr<SegmentIndex> ReadSegmentIndex(std::string_view bytes);
// Of all of it, checksum included.
absl::StatusOr<reader::BoxImage> ReadSegment(std::string_view bytes);

}  // namespace ncclwatch::analyzer
