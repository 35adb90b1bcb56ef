// A file of segments, one behind another.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/files/descriptor.h"
#include "analyzer/segments/segment.h"

namespace ncclwatch::analyzer {

// Beside segments that `import` has made: what their source does not tell, a sentence a line.
inline constexpr char kImportNotes[] = "import-notes.txt";

// Appends whole segments. The file is made by the first one, and locked (flock) while its writer lives.
class SegmentWriter {
 public:
  // Cuts off the half of a segment that a writer which was killed has left; nothing while the writer lives.
  static void Mend(const std::string& path);

  explicit SegmentWriter(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }  // so far
  // All of it or, as far as the file system lets that be undone, nothing.
  absl::Status Append(const std::string& segment);

 private:
  std::string path_;
  Descriptor file_;
  std::uint64_t bytes_ = 0;
};

class SegmentCalls;

class SegmentFile {
 public:
  struct Place {
    std::uint64_t offset = 0;
    SegmentIndex index;
  };

  // The segments up to the first damage, which `damage` then tells with its place.
  static absl::StatusOr<std::shared_ptr<const SegmentFile>> Open(const std::string& path);
  const std::string& path() const { return path_; }
  const std::vector<Place>& places() const { return places_; }
  const absl::Status& damage() const { return damage_; }
  std::uint64_t whole_bytes() const { return whole_bytes_; }  // up to the damage
  // Several threads may read at once.
  absl::StatusOr<reader::BoxImage> Read(const Place& place, bool with_calls = true) const;
  absl::StatusOr<std::unique_ptr<SegmentCalls>> ReadCalls(const Place& place) const;
  absl::Status At(std::uint64_t offset, const absl::Status& what) const;

 private:
  SegmentFile() = default;
  absl::StatusOr<std::string> Bytes(std::uint64_t offset, std::uint64_t count) const;

  std::string path_;
  Descriptor file_;
  std::vector<Place> places_;
  absl::Status damage_;
  std::uint64_t whole_bytes_ = 0;
};

std::vector<std::string> SegmentFiles(const std::string& directory);

}  // namespace ncclwatch::analyzer
