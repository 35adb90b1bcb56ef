#include "analyzer/jobs/gather.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"
#include "watchdog/act/dump.h"
#include "watchdog/act/program.h"
#include "watchdog/act/stacks.h"

namespace ncclwatch::analyzer {
namespace {

std::string ThisProgram() {
  char path[PATH_MAX];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof path);
  return bytes > 0 ? std::string(path, static_cast<std::size_t>(bytes)) : std::string();
}

// The thread that called NCCL last, 0 if none of its calls is left.
std::uint32_t ThreadOf(const reader::MappedBox& box) {
  constexpr std::uint64_t kNewest = 16;
  reader::Call call;
  for (std::uint64_t i = 1; i <= std::min(box.head(), kNewest); ++i)
    if (box.Read(box.head() - i, &call)) return call.thread;
  return 0;
}

template <typename Visit>
void VisitLiving(const std::string& directory, Visit visit) {
  for (const std::string& path : BoxFiles(directory)) {
    if (!LockHeld(path)) continue;
    const auto opened = reader::MappedBox::Open(path);
    if (const auto* box = std::get_if<std::unique_ptr<reader::MappedBox>>(&opened)) visit(**box);
  }
}

bool IsHere(const format::Identity& identity) {
  const std::string_view boot(identity.boot_id, strnlen(identity.boot_id, sizeof identity.boot_id));
  return boot == ThisPlace().boot_id && identity.pid_namespace == ThisPlace().pid_namespace;
}

}  // namespace

std::vector<Standing> LivingProcesses(const std::string& directory, std::int64_t since_ns) {
  std::vector<Standing> living;
  VisitLiving(directory, [&](const reader::MappedBox& box) {
    const format::Identity& identity = box.header().identity;
    Standing one;
    one.rank = identity.rank;
    one.pid = identity.pid;
    one.host.assign(identity.host, strnlen(identity.host, sizeof identity.host));
    one.here = IsHere(identity);
    one.stacks = reader::ReadProcessStacks(directory, identity.pid);
    one.file = directory + "/" + reader::kStacksFolder + "/" + std::to_string(identity.pid) + ".txt";
    if (one.stacks && (one.stacks->start_time != identity.start_time || one.stacks->at_ns < since_ns))
      one.stacks.reset();
    living.push_back(std::move(one));
  });
  std::stable_sort(living.begin(), living.end(), [](const Standing& a, const Standing& b) { return a.rank < b.rank; });
  return living;
}

std::string GatherEvidence(const std::string& directory) {
  act::StacksWish wish;
  wish.command = ThisProgram();
  wish.directory = directory;
  wish.environment = act::CopyEnvironment();
  act::Dump states;
  states.directory = directory;
  std::string missing;
  states.complain = [&missing](const std::string& line) { missing = line; };
  VisitLiving(directory, [&](const reader::MappedBox& box) {
    const format::Identity& identity = box.header().identity;
    if (!IsHere(identity)) return;
    const auto pid = static_cast<std::int32_t>(identity.pid);
    wish.targets.push_back({pid, ThreadOf(box)});
    states.suspects.push_back({pid, identity.rank});
  });
  if (wish.targets.empty()) return "its processes live on another machine, or in another container";
  act::Save(states);
  const std::string no_stacks = act::TakeStacks(wish);
  return no_stacks.empty() ? missing : no_stacks;
}

}  // namespace ncclwatch::analyzer
