#include "analyzer/recording/boxes_in_segments.h"

#include <algorithm>
#include <filesystem>
#include <variant>

#include "analyzer/jobs/locate.h"
#include "analyzer/segments/images.h"
#include "core/reader/box.h"

namespace ncclwatch::analyzer {
namespace {

bool Holds(const reader::BoxImage& from_segments, const reader::BoxImage& box) {
  return !from_segments.from_summary && from_segments.host == box.host && from_segments.pid == box.pid &&
         from_segments.start_time == box.start_time && from_segments.head == box.head;
}

}  // namespace

void RemoveBoxesInSegments(const std::string& recording) {
  for (const std::string& directory : BoxDirectories(recording)) {
    reader::RunImage segments;
    AddFromSegments(directory, &segments);
    if (!segments.failures.empty()) continue;
    for (const std::string& path : BoxFiles(directory)) {
      const auto read = reader::ReadBox(path, 0);
      const auto* const box = std::get_if<reader::BoxImage>(&read);
      std::error_code ignored;
      if (box && std::any_of(segments.boxes.begin(), segments.boxes.end(),
                             [&](const reader::BoxImage& one) { return Holds(one, *box); }))
        std::filesystem::remove(path, ignored);
    }
  }
}

}  // namespace ncclwatch::analyzer
