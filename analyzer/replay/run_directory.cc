#include "analyzer/replay/run_directory.h"

#include <algorithm>
#include <utility>

#include "analyzer/files/output_file.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/segments/segment.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::uint64_t kSlotsOfSegment = 65'536;

}  // namespace

RunDirectoryWriter::RunDirectoryWriter(std::string directory)
    : directory_(std::move(directory)), file_(directory_ + "/model" + format::kSegmentSuffix) {}

absl::Status RunDirectoryWriter::Open() const {
  if (absl::Status made = MakeFolders(directory_); !made.ok()) return made;
  if (!SegmentFiles(directory_).empty() || !BoxFiles(directory_).empty())
    return absl::AlreadyExistsError(directory_ + " holds a run already");
  return absl::OkStatus();
}

void RunDirectoryWriter::Append(const std::string& segment) {
  if (status_.ok()) status_ = file_.Append(segment);
}

void RunDirectoryWriter::AddOlder(const reader::BoxImage& image, std::uint64_t end) {
  reader::BoxImage piece = image;
  piece.calls.clear();
  piece.parts.clear();
  const auto from = [&](std::uint64_t slot) {
    return std::lower_bound(image.calls.begin(), image.calls.end(), slot,
                            [](const reader::Call& call, std::uint64_t wanted) { return call.slot < wanted; });
  };
  for (std::uint64_t begin = 0; begin < end; begin += kSlotsOfSegment) {
    const std::uint64_t until = std::min(end, begin + kSlotsOfSegment);
    piece.calls.assign(from(begin), from(until));
    piece.parts.clear();
    for (const reader::CallParts& parts : image.parts)
      if (parts.call.slot >= begin && parts.call.slot < until) piece.parts.push_back(parts);
    Append(ToSegment(piece, begin, until, /*last=*/false));
  }
}

absl::Status RunDirectoryWriter::Finish(const Outcome& outcome) {
  for (const reader::BoxImage& box : outcome.run.boxes) Append(ToSegment(box, box.first_slot, box.head, /*last=*/true));
  return status_;
}

}  // namespace ncclwatch::analyzer
