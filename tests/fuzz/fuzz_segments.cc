// A file of segments from a stranger. What lies behind a checksum is reached too: the input's first segment gets the
// one that is right for it.
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "analyzer/segments/segment.h"
#include "core/diagnose.h"
#include "core/view/from_boxes.h"

using namespace ncclwatch;

namespace {

void Read(std::string_view bytes) {
  if (analyzer::ReadSegmentIndex(bytes).ok()) analyzer::ReadSegmentHeader(bytes, bytes.size()).IgnoreError();
  auto image = analyzer::ReadSegment(bytes);
  if (!image.ok()) return;
  diagnosis::Snapshot snapshot;
  snapshot.now_ns = 1'000'000'000'000'000;
  snapshot.boxes.push_back(*std::move(image));
  diagnosis::Diagnose(snapshot);
}

std::string WithChecksum(std::string bytes) {
  format::SegmentHeader header;
  if (bytes.size() < sizeof header) return bytes;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::memcpy(header.magic, format::kSegmentMagic, sizeof header.magic);
  header.version = format::kSegmentVersion;
  header.bytes = bytes.size();
  std::memcpy(bytes.data(), &header, sizeof header);
  constexpr std::size_t kCovered = offsetof(format::SegmentHeader, bytes);
  header.checksum = static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data() + kCovered), bytes.size() - kCovered));
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  Read(bytes);
  Read(WithChecksum(bytes));
  return 0;
}
