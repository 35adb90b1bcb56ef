#include "analyzer/import/read.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "analyzer/import/base/in_parallel.h"
#include "analyzer/import/boxes.h"
#include "analyzer/import/debug_page.h"
#include "analyzer/import/json_text.h"
#include "analyzer/import/pickle.h"
#include "core/reader/file.h"

namespace ncclwatch::analyzer::import {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBytesOfPageToLookAt = 64 << 10;  // its style comes before the first rank

}  // namespace

bool IsDump(const std::string& path) {
  const reader::File file(path);
  if (!file.reason().empty()) return false;
  char first[64];
  const std::string_view bytes(first, file.ReadAt(0, first, sizeof first));
  return LooksLikePickle(bytes) || LooksLikeJsonObject(bytes) || LooksLikePage(bytes);
}

namespace {

// A page of all ranks needs no rank in its name, only dumps.
bool IsPage(const std::string& path) {
  const reader::File file(path);
  if (!file.reason().empty()) return false;
  std::string bytes(std::min<std::uint64_t>(file.bytes(), kBytesOfPageToLookAt), '\0');
  bytes.resize(file.ReadAt(0, bytes.data(), bytes.size()));
  return LooksLikePage(bytes) && !DumpsInPage(bytes).empty();
}

}  // namespace

std::vector<std::string> DumpFiles(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator next(directory, error), end; !error && next != end; next.increment(error)) {
    const std::string path = next->path();
    if ((RankInName(path) >= 0 && IsDump(path)) || IsPage(path)) files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

void ReadDumps(const std::vector<std::string>& files, const std::function<void(std::size_t)>& done,
               reader::RunImage* run) {
  std::vector<std::vector<absl::StatusOr<Dump>>> read(files.size());
  const auto read_one = [&](std::size_t i) {
    thread_local DumpReader reader;
    read[i] = reader.Read(files[i]);
  };
  InParallel(files.size(), read_one, done);
  std::vector<Dump> dumps;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (absl::StatusOr<Dump>& one : read[i])
      if (one.ok())
        dumps.push_back(*std::move(one));
      else
        run->failures.push_back({files[i], std::string(one.status().message())});
  AddBoxes(std::move(dumps), run);
}

}  // namespace ncclwatch::analyzer::import
