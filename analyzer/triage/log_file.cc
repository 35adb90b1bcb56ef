#include "analyzer/triage/log_file.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "ncclwatch/format/black_box.h"
#include "ncclwatch/format/segment.h"
#include "watchdog/rundir/own_names.h"

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

// What lies among logs and is none.
constexpr std::array<std::string_view, 14> kNoLogs = {".pt",  ".pth", ".bin", ".safetensors", ".npy",
                                                      ".npz", ".png", ".svg", ".pkl",         ".so",
                                                      ".o",   ".tar", ".zip", ".parquet"};

bool IsLog(const fs::path& path) {
  const std::string extension = path.extension().string();
  return std::find(kNoLogs.begin(), kNoLogs.end(), extension) == kNoLogs.end();
}

// Torchrun: LOGDIR/RUN/attempt_0/LOCAL_RANK/stderr.log.
bool ByTorchrun(const std::string& path, LogFile* file) {
  static const RE2 pattern(R"(attempt_\d+/(\d+)/[^/]*$)");
  file->is_local = RE2::PartialMatch(path, pattern, &file->rank);
  return file->is_local;
}

// "rank_3.log", "task-3.out", "train_rank03.txt", and "rank3/err", but not "of-rank3/err".
bool ByWord(const std::string& path, LogFile* file) {
  static const RE2 pattern(
      R"((?i)(?:^|[/._-]|\d)(?:rank|task|proc|process|worker|trainer)[_.-]?(\d+)(?:[^/\d][^/]*)?$)");
  static const RE2 folder(R"((?i)/(?:rank|task|proc|process|trainer)[_.-]?(\d+)/[^/]*$)");
  return RE2::PartialMatch(path, pattern, &file->rank) || RE2::PartialMatch(path, folder, &file->rank);
}

// A folder that is named as hosts are: "node03", "gpu-a12", "nid001234", "host7.cluster".
std::string HostOf(const fs::path& path) {
  static const RE2 pattern(R"((?i)(?:node|host|gpu|nid|dgx|compute|worker|ip-|cn|hgx)[a-z]*-?[a-z]*[0-9][\w.-]*)");
  for (const fs::path& part : path.parent_path())
    if (RE2::FullMatch(part.string(), pattern)) return part.string();
  static const RE2 in_name(R"(((?:node|host|gpu|nid|dgx|compute)-?[a-z]*\d+)[._-])");
  std::string host;
  RE2::PartialMatch(path.filename().string(), in_name, &host);
  return host;
}

// Files of one folder whose names differ in one number alone, 0 to N-1: that number is the rank. A rank can have
// several files: "7.out" and "7.err".
void NumberNeighbours(std::vector<LogFile>* files) {
  static const RE2 number(R"((\d+)([^\d/]*?)(?:\.(?:out|err|log))?$)");
  std::map<std::string, std::map<int, std::vector<LogFile*>>> groups;
  for (LogFile& file : *files) {
    if (file.rank >= 0) continue;
    int value = 0;
    std::string behind;
    if (!RE2::PartialMatch(file.path, number, &value, &behind)) continue;
    std::string name = file.path;
    RE2::Replace(&name, number, "#\\2");
    groups[name][value].push_back(&file);
  }
  for (const auto& [name, members] : groups) {
    const bool all = members.size() > 1 && members.begin()->first == 0 &&
                     members.rbegin()->first + 1 == static_cast<int>(members.size());
    for (const auto& [rank, of_rank] : members)
      for (LogFile* const file : of_rank)
        if (all) file->rank = rank;
  }
}

// Local ranks are the job's where there is one node.
void SettleLocalRanks(std::vector<LogFile>* files) {
  std::set<std::string> roots;
  for (const LogFile& file : *files)
    if (file.is_local) roots.insert(file.path.substr(0, file.path.rfind("/attempt_")));
  for (LogFile& file : *files)
    if (roots.size() == 1) file.is_local = false;
}

LogFile Describe(const fs::path& path) {
  LogFile file;
  file.path = path.string();
  std::error_code ignored;
  file.bytes = fs::file_size(path, ignored);
  if (ignored) file.bytes = 0;
  file.host = HostOf(path);
  if (!ByTorchrun(file.path, &file)) ByWord(file.path, &file);
  return file;
}

// Files that ncclwatch wrote. What they quote (the machine's kernel log, a finding) need not be this job's. They lie
// beside black boxes or segments, some of them in a folder there.
class OwnFiles {
 public:
  bool Has(const fs::path& file) {
    const fs::path folder = file.parent_path();
    if (rundir::IsOwnFile(file.filename().string()) && HoldsRun(folder)) return true;
    return rundir::IsOwnFolder(folder.filename().string()) && HoldsRun(folder.parent_path());
  }

 private:
  bool HoldsRun(const fs::path& folder) {
    const auto [known, is_new] = known_.try_emplace(folder.string(), false);
    std::error_code error;
    for (fs::directory_iterator i(folder.empty() ? "." : folder, error), end; is_new && !error && i != end;
         i.increment(error))
      if (i->path().extension() == format::kBoxSuffix || i->path().extension() == format::kSegmentSuffix)
        known->second = true;
    return known->second;
  }
  std::map<std::string, bool> known_;  // by folder
};

}  // namespace

absl::StatusOr<std::vector<LogFile>> FindLogs(const std::vector<std::string>& paths) {
  std::vector<LogFile> files;
  OwnFiles own;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) return absl::NotFoundError(path + ": no such file or folder");
    if (!fs::is_directory(status)) {
      files.push_back(Describe(path));
      continue;
    }
    const auto options = fs::directory_options::skip_permission_denied;
    for (fs::recursive_directory_iterator i(path, options, error), end; i != end && !error; i.increment(error))
      if (i->is_regular_file(error) && IsLog(i->path()) && !own.Has(i->path())) files.push_back(Describe(i->path()));
    if (error) return absl::UnavailableError(path + ": " + error.message());
  }
  std::sort(files.begin(), files.end(), [](const LogFile& a, const LogFile& b) { return a.path < b.path; });
  NumberNeighbours(&files);
  SettleLocalRanks(&files);
  return files;
}

}  // namespace ncclwatch::analyzer
