#include "analyzer/jobs/locate.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "analyzer/console/print.h"
#include "analyzer/console/progress.h"
#include "analyzer/files/scratch_folder.h"
#include "analyzer/import/formats.h"
#include "analyzer/import/read.h"
#include "analyzer/segments/images.h"
#include "analyzer/segments/segment_file.h"
#include "ncclwatch/format/black_box.h"
#include "watchdog/rundir/place.h"

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

bool IsBox(const fs::path& path) { return path.extension() == format::kBoxSuffix; }

std::vector<fs::path> Children(const fs::path& directory) {
  std::vector<fs::path> children;
  std::error_code error;
  for (fs::directory_iterator next(directory, error), end; !error && next != end; next.increment(error))
    children.push_back(next->path());
  std::sort(children.begin(), children.end());
  return children;
}

enum class Which { kAll, kWithBoxes };

void AddDirectories(Which which, const fs::path& directory, int depth, std::vector<std::string>* found) {
  bool wanted = which == Which::kAll;
  std::error_code error;
  for (const fs::path& child : Children(directory)) {
    if (IsBox(child))
      wanted = true;
    else if (depth > 0 && IsNested(child.filename().native()) && fs::is_directory(fs::symlink_status(child, error)))
      AddDirectories(which, child, depth - 1, found);
  }
  if (wanted) found->push_back(directory);
}

std::vector<std::string> Directories(Which which, const std::string& place) {
  constexpr int kDepth = 2;  // run-N/attempt-N
  std::vector<std::string> found;
  AddDirectories(which, place, kDepth, &found);
  return found;
}

// Writes through a mapping do not show in a file's times, but its making does: attempts are ordered by it.
fs::file_time_type Newest(const std::string& directory) {
  fs::file_time_type newest = fs::file_time_type::min();
  for (const std::string& box : BoxFiles(directory)) {
    std::error_code error;
    const fs::file_time_type time = fs::last_write_time(box, error);
    if (!error) newest = std::max(newest, time);
  }
  return newest;
}

// The first directory of the job that `attempt` is one of.
std::string JobOfAttempt(const std::string& attempt) {
  const fs::path path = attempt;
  const bool later = IsAttempt(path.filename().native()) && !rundir::JobOf(path.parent_path()).empty();
  return later ? path.parent_path().string() : attempt;
}

// That of the newest job at and below `place`. An attempt that was named stands for itself.
std::string NewestJob(std::string place) {
  while (place.size() > 1 && place.back() == '/') place.pop_back();
  const std::vector<std::string> directories = BoxDirectories(place);
  if (directories.empty()) return place;
  const std::string newest =
      *std::max_element(directories.begin(), directories.end(),
                        [](const std::string& a, const std::string& b) { return Newest(a) < Newest(b); });
  const fs::path path = newest;
  return newest != place && IsAttempt(path.filename().native()) ? path.parent_path().string() : newest;
}

// A link that was named is followed; links inside what it leads to are not.
std::string WithoutLink(const std::string& word) {
  std::error_code error;
  if (!fs::is_symlink(fs::symlink_status(word, error))) return word;
  const fs::path path = fs::canonical(word, error);
  return error ? word : path.string();
}

// It was named, so it is read; what it tells is that other user's word.
void SayIfSomebodyElses(const std::string& word) {
  struct stat info {};
  if (stat(word.c_str(), &info) == 0 && info.st_uid != geteuid())
    Complain("", "{} belongs to another user (uid {}): what it tells is theirs", word, info.st_uid);
}

void ReadForeign(const std::vector<std::string>& dumps, reader::RunImage* run) {
  Progress progress("reading dumps", dumps.size());
  const auto done = [&](std::size_t count) { progress.Done(count); };
  import::ReadDumps(dumps, done, run);
}

bool HasOwn(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return IsBox(path);
  return !BoxFiles(path).empty() || !SegmentFiles(path).empty();
}

// Dumps and NCCL Inspector's lines are read where they lie.
bool IsToBeImported(import::Format format) {
  return format != import::Format::kTorchDump && format != import::Format::kInspector;
}

// Those that are traces of other tools become one recording.
absl::StatusOr<std::vector<std::string>> WithImports(std::vector<std::string> paths) {
  static std::vector<std::unique_ptr<ScratchFolder>> drafts;  // as long as the command runs
  std::vector<std::string> own, foreign;
  for (std::string& path : paths) {
    const auto found = HasOwn(path) ? std::nullopt : import::Find(path, std::nullopt);
    (found && IsToBeImported(found->format) ? foreign : own).push_back(std::move(path));
  }
  if (foreign.empty()) return own;
  const auto found = import::FindAll(foreign, std::nullopt);
  if (!found.ok()) return found.status();
  const std::string& draft = drafts.emplace_back(std::make_unique<ScratchFolder>("import"))->path();
  if (draft.empty()) return absl::UnavailableError("no temporary directory can be made for what is read");
  Progress progress("reading traces", found->files.size());
  const auto imported = import::Import(*found, draft, [&](std::size_t count) { progress.Done(count); });
  if (!imported.ok()) return imported.status();
  SayFailures(imported->failures);
  if (imported->processes == 0) return absl::NotFoundError(foreign.front() + ": nothing in it could be read");
  own.push_back(draft);
  return own;
}

// The job, other directory or file that the user names; `latest` counts as that if nothing is named.
absl::StatusOr<std::string> PlaceMeant(const std::string& word, bool nothing_named) {
  std::error_code error;
  const bool exists = fs::exists(word, error);
  // What somebody has put into the present directory counts only if it was asked for by that name.
  if (word == "latest" && (nothing_named || !exists)) {
    const std::vector<rundir::Listed> runs = ListRuns();
    if (runs.empty()) return absl::NotFoundError("there is no run directory on this machine yet");
    return JobOfAttempt(runs.front().path);
  }
  if (!exists) return absl::NotFoundError(word + ": no such file or directory");
  SayIfSomebodyElses(word);
  const std::string place = WithoutLink(word);
  return fs::is_directory(place, error) ? NewestJob(place) : place;
}

bool IsNumbered(std::string_view name, std::string_view prefix) {
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  constexpr std::size_t kMostDigits = 9;  // of a number that an int holds
  return digits < name.size() && name.size() - digits <= kMostDigits && name.substr(0, digits) == prefix;
}

}  // namespace

bool IsAttempt(std::string_view name) { return IsNumbered(name, "attempt-"); }

bool IsNested(std::string_view name) { return IsAttempt(name) || IsNumbered(name, "run-"); }

std::vector<std::string> BoxDirectories(const std::string& place) { return Directories(Which::kWithBoxes, place); }

std::vector<std::string> PlaceDirectories(const std::string& place) { return Directories(Which::kAll, place); }

std::vector<std::string> BoxFiles(const std::string& directory) {
  std::vector<std::string> files;
  for (const fs::path& child : Children(directory))
    if (IsBox(child)) files.push_back(child);
  return files;
}

std::vector<rundir::Listed> ListRuns() {
  std::vector<std::string> refused;
  std::vector<rundir::Listed> runs = rundir::List(settings::OfThisProcess(), &refused);
  for (const std::string& reason : refused) Complain("", "{}: not looked at; name it to have it read", reason);
  return runs;
}

absl::StatusOr<Located> Locate(const std::vector<std::string>& words, const AttemptChoice& choice) {
  Located located;
  for (const std::string& word : words.empty() ? std::vector<std::string>{"latest"} : words) {
    absl::StatusOr<std::string> place = PlaceMeant(word, words.empty());
    if (!place.ok()) return place.status();
    std::error_code error;
    if (!fs::is_directory(*place, error) || !AddAttempts(*place, &located.attempts))
      located.paths.push_back(*std::move(place));
  }
  if (const absl::Status chosen = Choose(choice, &located.attempts); !chosen.ok())
    return absl::Status(chosen.code(),
                        absl::StrCat(absl::StrJoin(words, " "), words.empty() ? "" : ": ", chosen.message()));
  if (!located.attempts.all.empty())
    for (const std::string& directory : located.attempts.all[located.attempts.shown].directories)
      located.paths.push_back(directory);
  auto paths = WithImports(std::move(located.paths));
  if (!paths.ok()) return paths.status();
  located.paths = *std::move(paths);
  return located;
}

absl::StatusOr<std::string> LocateOne(const std::string& word) {
  const AttemptChoice newest{.number = std::nullopt, .prefer = Prefer::kNewest};
  const auto located = Locate(word.empty() ? std::vector<std::string>() : std::vector<std::string>{word}, newest);
  if (!located.ok()) return located.status();
  return located->paths.front();
}

reader::RunImage ReadJob(const std::vector<std::string>& paths, reader::Calls calls) {
  std::vector<std::string> files, dumps;
  reader::RunImage run;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      (import::IsDump(path) ? dumps : files).push_back(path);
      continue;
    }
    if (run.directory.empty()) run.directory = path;
    const std::vector<std::string> boxes = BoxFiles(path);
    const std::vector<std::string> foreign = boxes.empty() ? import::DumpFiles(path) : std::vector<std::string>();
    if (boxes.empty() && foreign.empty() && SegmentFiles(path).empty())
      run.failures.push_back(
          {path, "no black box in it, nor a dump of torch's flight recorder or lines of NCCL Inspector"});
    files.insert(files.end(), boxes.begin(), boxes.end());
    dumps.insert(dumps.end(), foreign.begin(), foreign.end());
  }
  {
    Progress progress("reading black boxes", files.size());
    const auto done = [&](std::size_t count) { progress.Done(count); };
    reader::ReadBoxes(files, calls, done, &run.boxes, &run.failures);
  }
  // Who wants all calls reads the recording.
  if (!run.directory.empty() && calls == reader::Calls::kForVerdict) AddFromSegments(run.directory, &run);
  // Communicators have other names there: what the two tell cannot be put together.
  if (!files.empty())
    for (const std::string& dump : dumps)
      run.failures.push_back({dump, "a dump of torch's flight recorder beside black boxes: to be given alone"});
  else if (!dumps.empty())
    ReadForeign(dumps, &run);
  reader::ReadBeside(&run);
  return run;
}

void SayFailures(const std::vector<reader::Failure>& failures) {
  for (const reader::Failure& failure : failures) Complain("", "{}: {}", failure.path, failure.reason);
}

}  // namespace ncclwatch::analyzer
