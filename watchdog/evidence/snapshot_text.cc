#include "watchdog/evidence/snapshot_text.h"

#include <dirent.h>

#include <algorithm>

#include "watchdog/descriptors/high.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::evidence {
namespace {

constexpr int kMostThreads = 256;

void AddThread(const std::string& task, std::string* text) {
  const auto read = [&task](const char* name) { return rundir::ReadSmall(task + "/" + name, 16384).value_or(""); };
  const std::string comm = read("comm");
  *text += "thread " + task.substr(task.rfind('/') + 1) + " " + comm.substr(0, comm.find('\n')) + ": wchan " +
           read("wchan") + ", syscall " + read("syscall");
  if (text->back() != '\n') *text += '\n';
  *text += read("stack");
}

}  // namespace

std::string ProcessText(std::int32_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::string command = rundir::ReadSmall(folder + "/cmdline", 16384).value_or("");
  const std::string status = rundir::ReadSmall(folder + "/status", 16384).value_or("");
  if (status.empty()) return "";
  std::replace(command.begin(), command.end(), '\0', ' ');
  std::string text = "command: " + command + "\n\n" + status + "\n";
  if (DIR* tasks = descriptors::OpenDirectory(folder + "/task")) {
    int left = kMostThreads;
    while (const dirent* entry = readdir(tasks))
      if (entry->d_name[0] != '.' && left-- > 0) AddThread(folder + "/task/" + entry->d_name, &text);
    closedir(tasks);
  }
  return text + "\nmaps:\n" + rundir::ReadSmall(folder + "/maps", 768 << 10).value_or("");
}

}  // namespace ncclwatch::evidence
