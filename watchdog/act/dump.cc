#include "watchdog/act/dump.h"

#include <sys/stat.h>

#include <cerrno>

#include "watchdog/act/files.h"
#include "watchdog/act/thread.h"
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

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

void Save(const Dump& dump) {
  Once complain(dump);
  std::vector<std::string> small = {"diagnosis.json", "diagnosis.txt"};
  const std::string evidence = dump.directory + "/evidence";
  // One level only: a run directory that was removed meanwhile stays removed.
  if (mkdir(evidence.c_str(), 0700) != 0 && errno != EEXIST) complain(evidence + ": cannot be made");
  for (const Suspect& suspect : dump.suspects) {
    const std::string text = evidence::ProcessText(suspect.pid);
    if (text.empty()) continue;
    const std::string name =
        "evidence/rank-" + std::to_string(suspect.rank) + ".pid-" + std::to_string(suspect.pid) + ".txt";
    complain(WriteFile(dump.directory + "/" + name, text));
    small.push_back(name);
  }
  if (dump.out.empty()) return;
  complain(MakeDirectories(dump.out + "/evidence"));
  for (const std::string& name : small) complain(CopyFile(dump.directory + "/" + name, dump.out + "/" + name));
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
