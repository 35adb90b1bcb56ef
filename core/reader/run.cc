// Finding the black boxes that somebody named.
#include <algorithm>
#include <filesystem>
#include <set>

#include "core/reader/box.h"

namespace ncclwatch::reader {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> Entries(const fs::path& directory, std::error_code* error) {
  std::vector<fs::path> entries;
  fs::directory_iterator next(directory, fs::directory_options::none, *error);
  for (; !*error && next != fs::directory_iterator(); next.increment(*error)) entries.push_back(next->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::vector<fs::path> BoxesIn(const fs::path& directory, std::error_code* error) {
  std::vector<fs::path> boxes = Entries(directory, error);
  std::erase_if(boxes, [](const fs::path& path) { return path.extension() != format::kBoxSuffix; });
  return boxes;
}

// A folder of run directories (a job's attempts): the one that changed last.
std::vector<fs::path> BoxesInNewestAttempt(const fs::path& directory, fs::path* attempt) {
  std::vector<fs::path> newest;
  fs::file_time_type newest_time = fs::file_time_type::min();
  std::error_code ignored;
  for (const fs::path& child : Entries(directory, &ignored)) {
    if (!fs::is_directory(fs::symlink_status(child, ignored))) continue;
    std::vector<fs::path> boxes = BoxesIn(child, &ignored);
    if (boxes.empty()) continue;
    fs::file_time_type time = fs::file_time_type::min();
    for (const fs::path& box : boxes) time = std::max(time, fs::last_write_time(box, ignored));
    if (newest.empty() || time >= newest_time) {
      newest_time = time;
      newest = std::move(boxes);
      *attempt = child;
    }
  }
  return newest;
}

}  // namespace

RunImage ReadRun(const std::vector<std::string>& paths) {
  RunImage run;
  std::set<std::string> seen;
  std::vector<std::string> files;
  const auto add = [&](const std::string& path) {
    if (paths.size() == 1) return files.push_back(path);  // nothing can be there twice
    std::error_code ignored;
    const fs::path canonical = fs::weakly_canonical(path, ignored);
    if (seen.insert(canonical.empty() ? path : canonical.string()).second) files.push_back(path);
  };
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      add(path);
      continue;
    }
    fs::path directory = path;
    std::vector<fs::path> boxes = BoxesIn(directory, &error);
    if (error) {
      run.failures.push_back({path, "cannot be listed: " + error.message()});
      continue;
    }
    if (boxes.empty()) boxes = BoxesInNewestAttempt(directory, &directory);
    if (boxes.empty()) run.failures.push_back({path, "no black box in it"});
    if (run.directory.empty()) run.directory = directory.string();
    for (const fs::path& box : boxes) add(box.string());
  }
  ReadBoxes(
      files, Calls::kForVerdict, [](std::size_t) {}, &run.boxes, &run.failures);
  ReadBeside(&run);
  return run;
}

void ReadBeside(RunImage* run) {
  std::set<std::string> directories;
  for (const BoxImage& box : run->boxes) {
    const fs::path parent = fs::path(box.path).parent_path();
    directories.insert(parent.empty() ? "." : parent.string());
  }
  run->stacks.clear();
  run->witness.clear();
  for (const std::string& path : directories) {
    const descriptors::Directory directory = descriptors::Directory::Named(path);
    if (std::optional<VerdictStacks> stacks = ReadVerdictStacks(directory)) run->stacks.push_back(std::move(*stacks));
    if (const std::optional<Witness> seen = ReadWitness(directory))
      run->witness.insert(run->witness.end(), seen->begin(), seen->end());
  }
}

}  // namespace ncclwatch::reader
