#include "analyzer/import/formats.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <mutex>
#include <utility>

#include "analyzer/import/base/json_lines.h"
#include "analyzer/import/base/text_file.h"
#include "analyzer/import/chakra/traces.h"
#include "analyzer/import/inspector/read.h"
#include "analyzer/import/inspector/traces.h"
#include "analyzer/import/kineto/read.h"
#include "analyzer/import/otf2/import.h"
#include "analyzer/import/read.h"

namespace ncclwatch::analyzer::import {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytesToGuessBy = 16384;

bool Has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// A JSON document that begins so, or lines of JSON.
std::optional<Format> FormatOfJson(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  if (Has(line, "\"time_ns\"") && (Has(line, "\"op\"") || Has(line, "\"operation\""))) return Format::kJsonLines;
  if (Has(text, "\"schema\"") && Has(text, "Chakra")) return Format::kChakra;
  if (Has(text, "\"workload_graph\"") || Has(text, "_NODE\"")) return Format::kChakra;
  if (Has(text, "\"nodes\"") && (Has(text, "\"ctrl_deps\"") || Has(text, "\"inputs\"") || Has(text, "\"rf_id\"")))
    return Format::kChakra;
  if (Has(text, "\"traceEvents\"") || Has(text, "\"schemaVersion\"") || Has(text, "\"deviceProperties\"") ||
      (Has(text, "\"ph\"") && Has(text, "\"ts\"") && Has(text, "\"cat\"")))
    return Format::kKineto;
  return std::nullopt;
}

// The first message, GlobalMetadata, has its length before it (of 7 bits a byte) and begins with the version, field 1,
// or with an attribute, field 2.
bool LooksLikeChakra(std::string_view bytes) {
  std::size_t begin = 0;
  while (begin < bytes.size() && (bytes[begin] & 0x80) != 0) ++begin;
  return begin + 2 < bytes.size() && bytes[begin] != 0 && (bytes[begin + 1] == 0x0a || bytes[begin + 1] == 0x12);
}

Imported Dumps(const Found& found, reader::RunImage* run, FilesRead done) {
  Imported imported;
  ReadDumps(
      found.files, [&](std::size_t count) { done(count); }, run);
  imported.failures = std::move(run->failures);
  imported.notes = run->notes;
  return imported;
}

void Count(const reader::BoxImage& box, Imported* imported) {
  ++imported->processes;
  imported->calls += box.calls.size();
  imported->operations += box.operations.all.size();
}

absl::StatusOr<Imported> Finished(Imported imported, absl::Status status, const TraceWriter& writer) {
  status.Update(writer.AddNotes(imported.notes));
  if (!status.ok()) return status;
  return imported;
}

}  // namespace

std::optional<Format> FormatNamed(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kFormatNames); ++i)
    if (kFormatNames[i] == name) return static_cast<Format>(i);
  return std::nullopt;
}

std::optional<Format> FormatOf(const std::string& file) {
  const fs::path path(file);
  if (path.extension() == ".otf2") return Format::kOtf2;
  if (inspector::IsFile(file)) return Format::kInspector;
  const std::string text = FirstBytes(file, kBytesToGuessBy);
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string::npos && (text[begin] == '{' || text[begin] == '['))
    if (const auto format = FormatOfJson(std::string_view(text).substr(begin))) return format;
  if (path.extension() == ".et" && LooksLikeChakra(text)) return Format::kChakra;
  return IsDump(file) ? std::optional(Format::kTorchDump) : std::nullopt;
}

std::optional<Found> Find(const std::string& path, std::optional<Format> only) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const auto format = only ? only : FormatOf(path);
    return format ? std::optional(Found{*format, {path}}) : std::nullopt;
  }
  Found found;
  std::vector<std::string> files;
  for (fs::directory_iterator next(path, error), end; !error && next != end; next.increment(error))
    if (next->is_regular_file(error)) files.push_back(next->path());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    const auto format = FormatOf(file);
    if (!format || (only && format != only) || (!found.files.empty() && format != found.format)) continue;
    found.format = *format;
    found.files.push_back(file);
  }
  return found.files.empty() ? std::nullopt : std::optional(std::move(found));
}

absl::StatusOr<Found> FindAll(const std::vector<std::string>& paths, std::optional<Format> only) {
  Found all;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::exists(path, error)) return absl::NotFoundError(path + ": no such file or directory");
    auto found = Find(path, only ? only : all.files.empty() ? std::nullopt : std::optional(all.format));
    if (!found) return absl::NotFoundError(path + ": no trace of another tool that is known here");
    all.format = found->format;
    all.files.insert(all.files.end(), found->files.begin(), found->files.end());
  }
  return all;
}

absl::StatusOr<Imported> Import(const Found& found, const std::string& directory, FilesRead done) {
  const TraceWriter writer(directory);
  Imported imported;
  absl::Status status;
  if (found.format == Format::kTorchDump) {
    reader::RunImage run;
    imported = Dumps(found, &run, done);
    for (reader::BoxImage& box : run.boxes) {
      if (box.pid == 0) box.pid = static_cast<std::uint32_t>(box.rank + 1);  // it tells processes of a recording apart
      status.Update(writer.Add(box));
      Count(box, &imported);
    }
    return Finished(std::move(imported), std::move(status), writer);
  }
  if (found.format == Format::kOtf2) {
#ifdef NCCLWATCH_OTF2
    auto read = otf2::ImportArchives(found.files, writer, done);
    return read.ok() ? Finished(*std::move(read), absl::OkStatus(), writer) : std::move(read);
#else
    return absl::UnimplementedError("this build cannot read OTF2: it was made without OTF2's library");
#endif
  }
  std::mutex mutex;
  const auto take = [&](Trace trace) {
    const reader::BoxImage box = Finish(std::move(trace));
    const absl::Status written = writer.Add(box);
    const std::lock_guard lock(mutex);
    status.Update(written);
    Count(box, &imported);
  };
  switch (found.format) {
    case Format::kKineto: kineto::ReadTraces(found.files, take, &imported, done); break;
    case Format::kChakra: chakra::ReadTraces(found.files, take, &imported, done); break;
    case Format::kJsonLines: ReadJsonLines(found.files, take, &imported, done); break;
    case Format::kInspector: inspector::ReadTraces(found.files, take, &imported, done); break;
    case Format::kOtf2:
    case Format::kTorchDump: break;  // above
  }
  return Finished(std::move(imported), std::move(status), writer);
}

}  // namespace ncclwatch::analyzer::import
