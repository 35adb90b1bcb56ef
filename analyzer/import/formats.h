// Which files other tools wrote, and making a recording of them.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/import/base/trace.h"

namespace ncclwatch::analyzer::import {

enum class Format : std::uint8_t { kKineto, kChakra, kOtf2, kTorchDump, kInspector, kJsonLines };
inline constexpr std::string_view kFormatNames[] = {"kineto", "chakra", "otf2", "torch-fr", "inspector", "jsonl"};
constexpr std::string_view Name(Format format) { return kFormatNames[static_cast<std::size_t>(format)]; }
std::optional<Format> FormatNamed(std::string_view name);

// By the first bytes of the file; none: no format of another tool.
std::optional<Format> FormatOf(const std::string& file);

struct Found {
  Format format{};
  std::vector<std::string> files;  // in the order of their names
};
// In a file, or right in a directory. None: nothing of another tool. `only`: files of this format alone.
std::optional<Found> Find(const std::string& path, std::optional<Format> only);

// In all of them together; an error if a path holds nothing of another tool, or files of different formats.
absl::StatusOr<Found> FindAll(const std::vector<std::string>& paths, std::optional<Format> only);

// Into a directory that exists. `done` is called with how many files have been read.
absl::StatusOr<Imported> Import(const Found& found, const std::string& directory, FilesRead done);

}  // namespace ncclwatch::analyzer::import
