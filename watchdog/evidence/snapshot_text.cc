#include "watchdog/evidence/snapshot_text.h"

#include <dirent.h>
#include <fmt/format.h>

#include "watchdog/descriptors/high.h"
#include "watchdog/rundir/process.h"
#include "watchdog/settings/redact.h"

namespace ncclwatch::evidence {
namespace {

constexpr int kMostThreads = 256;
constexpr std::size_t kMostCommand = 16 << 10;

void AddThread(const std::string& task, std::string* text) {
  const auto read = [&task](const char* name) { return rundir::ReadSmall(task + "/" + name, 16384).value_or(""); };
  const std::string comm = read("comm");
  *text += fmt::format("thread {} {}: wchan {}, syscall {}", task.substr(task.rfind('/') + 1),
                       comm.substr(0, comm.find('\n')), read("wchan"), read("syscall"));
  if (text->back() != '\n') *text += '\n';
  *text += read("stack");
}

}  // namespace

std::string ProcessText(std::int32_t pid, const std::string& redact) {
  const std::string folder = fmt::format("/proc/{}", pid);
  const std::string words = rundir::ReadSmall(folder + "/cmdline", kMostCommand).value_or("");
  const std::string status = rundir::ReadSmall(folder + "/status", 16384).value_or("");
  if (status.empty()) return "";
  std::string text = "command: " + settings::CommandText(words, words.size() < kMostCommand, redact);
  text += "\n\n" + status + "\n";
  if (DIR* tasks = descriptors::OpenDirectory(folder + "/task")) {
    int left = kMostThreads;
    while (const dirent* entry = readdir(tasks))
      if (entry->d_name[0] != '.' && left-- > 0) AddThread(folder + "/task/" + entry->d_name, &text);
    closedir(tasks);
  }
  return text + "\nmaps:\n" + rundir::ReadSmall(folder + "/maps", 768 << 10).value_or("");
}

}  // namespace ncclwatch::evidence
