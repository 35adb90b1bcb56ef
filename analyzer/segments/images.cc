#include "analyzer/segments/images.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "analyzer/segments/segment_file.h"
#include "watchdog/reader/awaited.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kCallsOfRing = 16384;  // as many as the usual ring holds

struct Found {
  std::shared_ptr<const SegmentFile> file;
  const SegmentFile::Place* place;
};

std::string KeyOf(std::string_view host, std::uint32_t pid, std::uint64_t start_time) {
  return fmt::format("{}.{}.{}", host, pid, start_time);
}

std::map<std::string, std::vector<Found>> SegmentsByProcess(const std::string& directory) {
  std::map<std::string, std::vector<Found>> found;
  for (const std::string& path : SegmentFiles(directory)) {
    const auto file = SegmentFile::Open(path);
    if (!file.ok()) continue;
    for (const SegmentFile::Place& place : (*file)->places()) {
      const format::SegmentHeader& header = place.index.header;
      found[KeyOf(place.index.host, header.pid, header.start_time)].push_back({*file, &place});
    }
  }
  for (auto& [key, segments] : found)
    std::sort(segments.begin(), segments.end(), [](const Found& a, const Found& b) {
      return a.place->index.header.begin_slot > b.place->index.header.begin_slot;
    });
  return found;
}

// `newest_first`: its segments.
reader::BoxImage ImageOf(const std::vector<Found>& newest_first, std::vector<reader::Failure>* failures) {
  reader::BoxImage image;
  for (const Found& segment : newest_first) {
    if (image.calls.size() >= kCallsOfRing) break;
    auto older = segment.file->Read(*segment.place);
    if (!older.ok()) {
      failures->push_back({segment.file->path(), std::string(older.status().message())});
      break;
    }
    if (image.pid == 0) {
      image = *std::move(older);
      continue;
    }
    image.calls.insert(image.calls.begin(), older->calls.begin(), older->calls.end());
    image.parts.insert(image.parts.begin(), older->parts.begin(), older->parts.end());
  }
  image.first_slot = image.calls.empty() ? image.head : image.calls.front().slot;
  reader::MarkAwaited(&image);
  return image;
}

}  // namespace

void AddFromSegments(const std::string& directory, reader::RunImage* run) {
  absl::flat_hash_set<std::string> known;
  for (const reader::BoxImage& box : run->boxes) known.insert(KeyOf(box.host, box.pid, box.start_time));
  for (const auto& [key, segments] : SegmentsByProcess(directory))
    if (!known.contains(key)) run->boxes.push_back(ImageOf(segments, &run->failures));
}

}  // namespace ncclwatch::analyzer
