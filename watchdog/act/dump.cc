#include "watchdog/act/dump.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "watchdog/act/files.h"
#include "watchdog/act/thread.h"
#include "watchdog/descriptors/high.h"
#include "watchdog/evidence/snapshot_text.h"

namespace ncclwatch::act {
namespace {

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
std::vector<std::string> TextsIn(const std::string& directory, const std::string& folder) {
  std::vector<std::string> names;
  DIR* open = descriptors::OpenDirectory(directory + "/" + folder);
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

void CopyOut(const Dump& dump, Once* complain) {
  for (const char* name : {"diagnosis.json", "diagnosis.txt"})
    if (dump.verdict) (*complain)(CopyFile(dump.directory + "/" + name, dump.out + "/" + name));
  for (const char* folder : {"evidence", "stacks"}) {
    const std::vector<std::string> names = TextsIn(dump.directory, folder);
    if (!names.empty()) (*complain)(MakeDirectories(dump.out + "/" + folder));
    for (const std::string& name : names) (*complain)(CopyFile(dump.directory + "/" + name, dump.out + "/" + name));
  }
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

void Save(const Dump& dump) {
  Once complain(dump);
  const std::string evidence = dump.directory + "/evidence";
  // One level only: a run directory that was removed meanwhile stays removed.
  if (mkdir(evidence.c_str(), 0700) != 0 && errno != EEXIST) complain(evidence + ": cannot be made");
  for (const Suspect& suspect : dump.suspects) {
    const std::string text = evidence::ProcessText(suspect.pid, dump.redact);
    if (text.empty()) continue;
    const std::string name =
        "evidence/rank-" + std::to_string(suspect.rank) + ".pid-" + std::to_string(suspect.pid) + ".txt";
    complain(WriteFile(dump.directory + "/" + name, text));
  }
  if (dump.out.empty()) return;
  complain(MakeDirectories(dump.out));
  CopyOut(dump, &complain);
  if (dump.own)
    complain(WriteFile(dump.out + "/" + dump.own_name,
                       {reinterpret_cast<const char*>(dump.own), static_cast<std::size_t>(dump.own->file_bytes)}));
  for (const std::string& box : dump.boxes) complain(CopyFile(box, dump.out + "/" + BaseName(box)));
}

void SaveInBackground(Dump dump, std::shared_ptr<std::atomic<bool>> done) {
  const bool started = StartThread("ncclwatch-dump", [dump, done] {
    Save(dump);
    done->store(true, std::memory_order_release);
  });
  if (!started) done->store(true, std::memory_order_release);
}

}  // namespace ncclwatch::act
