#include "watchdog/act/dump.h"

#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "watchdog/act/files.h"
#include "watchdog/evidence/snapshot_text.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::act {
namespace {

using descriptors::Directory;

class Once {
 public:
  explicit Once(const Dump& dump) : dump_(dump) {}
  void operator()(const std::string& error) {
    if (error.empty() || said_) return;
    said_ = true;
    if (dump_.complain) dump_.complain("evidence could not be saved whole: " + error);
  }

 private:
  const Dump& dump_;
  bool said_ = false;
};

constexpr std::size_t kMostFiles = 16384;  // of one folder

// The finished texts of a folder of the run directory, as names below it. Drafts and logs are left behind.
std::vector<std::string> TextsIn(const Directory& directory, const std::string& folder) {
  std::vector<std::string> names;
  DIR* open = directory.List(folder);
  if (!open) return names;
  while (const dirent* entry = readdir(open))
    if (std::string_view(entry->d_name).ends_with(".txt") && names.size() < kMostFiles)
      names.push_back(folder + "/" + entry->d_name);
  closedir(open);
  // What a person reads first is there first.
  const auto first = [](const std::string& name) {
    return name.ends_with("/verdict.txt") || name.ends_with("/merged.txt");
  };
  std::sort(names.begin(), names.end(),
            [&](const std::string& a, const std::string& b) { return first(a) != first(b) ? first(a) : a < b; });
  return names;
}

// What was seen of stragglers and machines (reader/beside/).
std::vector<std::string> BesideBoxes(const Directory& directory) {
  std::vector<std::string> names;
  DIR* open = directory.List();
  if (!open) return names;
  while (const dirent* entry = readdir(open)) {
    const std::string_view name = entry->d_name;
    const bool seen = name.starts_with("machine.") || name.starts_with("meanwhile.");
    if (seen && name.ends_with(".txt") && names.size() < kMostFiles) names.emplace_back(name);
  }
  closedir(open);
  return names;
}

void CopyOut(const Dump& dump, const Directory& out, Once* complain) {
  for (const char* name : {"diagnosis.json", "diagnosis.txt"})
    if (dump.verdict) (*complain)(CopyFile(dump.directory, out, name));
  for (const std::string& name : BesideBoxes(dump.directory)) (*complain)(CopyFile(dump.directory, out, name));
  for (const char* folder : {"evidence", "stacks"}) {
    const std::vector<std::string> names = TextsIn(dump.directory, folder);
    if (!names.empty()) (*complain)(MakeFolder(out, folder));
    for (const std::string& name : names) (*complain)(CopyFile(dump.directory, out, name));
  }
}

// Asked again after it was read: what was read is of that process, and not of another that has come by its pid.
std::string TextOf(const Suspect& suspect, const std::string& redact, Once* complain) {
  std::string text = evidence::ProcessText(suspect.pid, redact);
  const std::optional<rundir::ProcessStat> now = rundir::StatOf(suspect.pid);
  if (text.empty() || !now) return "";
  if (now->start_time == suspect.start_time) return text;
  (*complain)(fmt::format("pid {} is another process by now: not looked at", suspect.pid));
  return "";
}

}  // namespace

void Save(const Dump& dump) {
  Once complain(dump);
  // One level only: a run directory that was removed meanwhile stays removed.
  complain(MakeFolder(dump.directory, "evidence"));
  for (const Suspect& suspect : dump.suspects) {
    const std::string text = TextOf(suspect, dump.redact, &complain);
    if (text.empty()) continue;
    complain(WriteFile(dump.directory, fmt::format("evidence/rank-{}.pid-{}.txt", suspect.rank, suspect.pid), text));
  }
  if (dump.out.empty()) return;
  complain(MakeDirectories(dump.out));
  const Directory out = Directory::Own(dump.out);
  if (!out) return complain("NCCLWATCH_OUT: " + out.reason());
  CopyOut(dump, out, &complain);
  if (dump.own)
    complain(WriteFile(out, dump.own_name,
                       {reinterpret_cast<const char*>(dump.own), static_cast<std::size_t>(dump.own->file_bytes)}));
  for (const std::string& box : dump.boxes) complain(CopyFile(dump.directory, out, box));
}

}  // namespace ncclwatch::act
