#include "analyzer/segments/images.h"

#include <absl/container/flat_hash_set.h>
#include <absl/strings/str_split.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "analyzer/files/input_file.h"
#include "analyzer/segments/segment_file.h"
#include "core/reader/awaited.h"
#include "ncclwatch/format/note.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kCallsOfRing = 16384;  // as many as the usual ring holds
constexpr std::size_t kMostForNotes = 64;    // segments that are read further back for their notes alone

struct Found {
  std::shared_ptr<const SegmentFile> file;
  const SegmentFile::Place* place;
};

std::string KeyOf(std::string_view host, std::uint32_t pid, std::uint64_t start_time) {
  return fmt::format("{}.{}.{}", host, pid, start_time);
}

// Of the processes that are not `known`. What is wrong with a file counts only if it may hold one of them: that of a
// living job may be in the middle of a segment.
std::map<std::string, std::vector<Found>> SegmentsByProcess(const std::string& directory,
                                                            const absl::flat_hash_set<std::string>& known,
                                                            std::vector<reader::Failure>* failures) {
  std::map<std::string, std::vector<Found>> found;
  for (const std::string& path : SegmentFiles(directory)) {
    const auto file = SegmentFile::Open(path);
    if (!file.ok()) {
      failures->push_back({path, std::string(file.status().message())});
      continue;
    }
    bool needed = (*file)->places().empty();
    for (const SegmentFile::Place& place : (*file)->places()) {
      const format::SegmentHeader& header = place.index.header;
      const std::string key = KeyOf(place.index.host, header.pid, header.start_time);
      if (known.contains(key)) continue;
      needed = true;
      found[key].push_back({*file, &place});
    }
    if (needed && !(*file)->damage().ok()) failures->push_back({path, std::string((*file)->damage().message())});
  }
  for (auto& [key, segments] : found) {
    // Those that hold no calls have the slot of the one behind them: they stay in the file's order.
    std::stable_sort(segments.begin(), segments.end(), [](const Found& a, const Found& b) {
      return a.place->index.header.begin_slot < b.place->index.header.begin_slot;
    });
    std::reverse(segments.begin(), segments.end());
  }
  return found;
}

// `newest_first`: its segments.
reader::BoxImage ImageOf(const std::vector<Found>& newest_first, std::vector<reader::Failure>* failures) {
  reader::BoxImage image;
  std::size_t read = 0;
  for (const Found& segment : newest_first) {
    const bool calls_do = image.calls.size() >= kCallsOfRing;
    if (calls_do && (image.notes.empty() || image.notes.size() >= format::kNoteCapacity || read >= kMostForNotes))
      break;
    ++read;
    auto older = segment.file->Read(*segment.place);
    if (!older.ok()) {
      failures->push_back({segment.file->path(), std::string(older.status().message())});
      break;
    }
    if (image.pid == 0) {
      image = *std::move(older);
      continue;
    }
    image.notes.insert(image.notes.begin(), older->notes.begin(), older->notes.end());
    image.events.insert(image.events.begin(), older->events.begin(), older->events.end());
    if (calls_do) continue;
    image.calls.insert(image.calls.begin(), older->calls.begin(), older->calls.end());
    image.parts.insert(image.parts.begin(), older->parts.begin(), older->parts.end());
  }
  image.first_slot = image.calls.empty() ? image.head : image.calls.front().slot;
  reader::MarkAwaited(&image);
  return image;
}

// One a line; nobody writes many.
void AddNotesBeside(const std::string& directory, reader::RunImage* run) {
  constexpr std::uint64_t kMostBytes = 1 << 16;
  const std::string path = directory + "/" + kImportNotes;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  const auto text = ReadFile(path, kMostBytes);
  if (!text.ok()) {
    run->failures.push_back({path, std::string(text.status().message())});
    return;
  }
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
  run->notes.insert(run->notes.end(), lines.begin(), lines.end());
}

}  // namespace

void AddFromSegments(const std::string& directory, reader::RunImage* run) {
  AddNotesBeside(directory, run);
  absl::flat_hash_set<std::string> known;
  for (const reader::BoxImage& box : run->boxes) known.insert(KeyOf(box.host, box.pid, box.start_time));
  std::size_t without_notes = 0, without_end = 0, foreign = 0;
  for (const auto& [key, segments] : SegmentsByProcess(directory, known, &run->failures)) {
    run->boxes.push_back(ImageOf(segments, &run->failures));
    without_end += run->boxes.back().from_summary;
    foreign += run->boxes.back().dump;
    without_notes += std::any_of(segments.begin(), segments.end(), [](const Found& one) {
      return one.place->index.header.version < format::kFirstSegmentVersionWithNotes;
    });
  }
  if (foreign > 0)
    run->notes.push_back(
        "imported from another tool's trace: it does not tell whether a process lives, what ranks ended with, and "
        "where "
        "they stand. Nothing of that was checked");
  if (without_end > 0)
    run->missing.push_back(fmt::format(
        "the last segment of {} is not there, nor its black box: how it ended and who waited for whom is not known",
        without_end == 1 ? "one process" : fmt::format("{} processes", without_end)));
  if (without_notes > 0)
    run->missing.push_back(fmt::format(
        "{} of an older ncclwatch and without black boxes: they hold no steps, metrics or events of the program, and "
        "not "
        "how it ended",
        without_notes == 1 ? "segments of one process" : fmt::format("segments of {} processes", without_notes)));
}

}  // namespace ncclwatch::analyzer
