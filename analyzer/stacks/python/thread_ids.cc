#include "analyzer/stacks/python/thread_ids.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <charconv>
#include <filesystem>
#include <string>

#include "analyzer/files/input_file.h"

namespace ncclwatch::stacks::python {
namespace {

bool SamePidNamespace(const std::string& folder) {
  struct stat its {
  }, ours{};
  return stat((folder + "/ns/pid").c_str(), &its) == 0 && stat("/proc/self/ns/pid", &ours) == 0 &&
         its.st_ino == ours.st_ino && its.st_dev == ours.st_dev;
}

// The last number of "NSpid:" is that of the innermost namespace, which the process sees.
std::int32_t LocalId(const std::string& task, std::int32_t seen) {
  analyzer::InputFile status(task + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    const std::size_t last = line.find_last_of("\t ");
    std::int32_t id = seen;
    std::from_chars(line.data() + last + 1, line.data() + line.size(), id);
    return id;
  }
  return seen;
}

// Descriptors that have a task's number there, each another's.
std::size_t Matches(Reader* memory, const std::vector<std::uint64_t>& descriptors, const Tasks& tasks,
                    std::uint64_t offset) {
  absl::flat_hash_set<std::int32_t> found;
  for (const std::uint64_t descriptor : descriptors) {
    const auto id = memory->Value<std::int32_t>(descriptor + offset);
    if (id && tasks.contains(*id) && !found.insert(*id).second) return 0;
  }
  return found.size();
}

}  // namespace

Tasks TasksOf(int pid) {
  Tasks tasks;
  const std::string folder = fmt::format("/proc/{}", pid);
  const bool same = SamePidNamespace(folder);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder + "/task", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    int seen = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), seen).ec != std::errc{}) continue;
    tasks.emplace(same ? seen : LocalId(entry->path(), seen), seen);
  }
  return tasks;
}

std::uint64_t FindTidOffset(Reader* memory, const std::vector<std::uint64_t>& descriptors, const Tasks& tasks) {
  // glibc's for x86-64 and aarch64 first: a small number (a container's process 1) may be found in other places too.
  constexpr std::uint64_t kGlibc[] = {720, 208};
  constexpr std::uint64_t kMost = 2048;
  std::uint64_t best = kNoTidOffset;
  std::size_t most = 0;
  const auto consider = [&](std::uint64_t offset) {
    const std::size_t matches = Matches(memory, descriptors, tasks, offset);
    if (matches <= most) return;
    most = matches;
    best = offset;
  };
  for (const std::uint64_t offset : kGlibc) consider(offset);
  for (std::uint64_t offset = 0; offset < kMost && most < descriptors.size(); offset += sizeof(std::int32_t))
    consider(offset);
  return best;
}

}  // namespace ncclwatch::stacks::python
