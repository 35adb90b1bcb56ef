// A segment of a recording: calls of one process, in the order of their slots, with the process's identity and
// communicators as they were then. Segments stand one behind another in a file; each can be read alone.
//
//   SegmentHeader
//   index_bytes    for filters: host, boot, the communicators of the calls, the ranges of slots that were lost
//   the rest       a zstd frame of payload_bytes: an image as leaders tell it (core/nodes/image_code.h), then the
//                  notes and events that the program made since the segment before, then what the
//                  process knew as a leader, and whether this is its last segment, then what another tool's trace
//                  tells besides (segment.cc)
#pragma once

#include <cstdint>

namespace ncclwatch::format {

inline constexpr char kSegmentSuffix[] = ".segments";
inline constexpr char kSegmentMagic[8] = {'n', 'c', 'c', 'l', 's', 'e', 'g', '\n'};
inline constexpr std::uint32_t kSegmentVersion = 5;
inline constexpr std::uint32_t kOldestSegmentVersion = 1;
inline constexpr std::uint32_t kFirstSegmentVersionWithNotes = 3;
inline constexpr std::uint32_t kFirstSegmentVersionWithLeader = 4;
inline constexpr std::uint32_t kFirstSegmentVersionWithOperations = 5;
inline constexpr std::uint64_t kMostSegmentBytes = 64u << 20;

// Native byte order. Instants are of the wall clock of the process's node.
struct SegmentHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t checksum;       // CRC-32 (zlib) of all behind this field, up to `bytes`
  std::uint64_t bytes;          // of the segment, this header included: the next one begins there
  std::uint64_t payload_bytes;  // uncompressed
  std::uint32_t index_bytes;
  std::int32_t rank;         // -1: not known
  std::uint64_t begin_slot;  // what lies in [begin_slot, end_slot) and is not among the calls was lost
  std::uint64_t end_slot;
  std::uint64_t calls;
  std::int64_t first_ns;  // the earliest entry of a call
  std::int64_t last_ns;   // the latest
  std::uint64_t start_time;
  std::uint32_t pid;
  std::uint32_t operations;  // that it holds
};
static_assert(sizeof(SegmentHeader) == 96);

}  // namespace ncclwatch::format
