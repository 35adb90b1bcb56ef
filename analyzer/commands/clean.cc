// `ncclwatch clean`: removes finished run directories.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/progress.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/remove.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kCleanHelp[] =
    "Remove finished run directories of this machine, with their diagnoses.\n\n"
    "A directory is removed as a whole (all attempts), and only if no process of the job lives, it belongs to the\n"
    "caller and is no link. Files that are not ncclwatch's own stay, and with them the directory.\n"
    "Exit status: 0 done, 1 if something could not be removed, 2 usage, 3 if a DIR is missing.";

const char* Name(Removal::What what) {
  switch (what) {
    case Removal::What::kRemoved: return "removed";
    case Removal::What::kWouldRemove: return "would_remove";
    case Removal::What::kAlive: return "alive";
    case Removal::What::kTooYoung: return "too_young";
    case Removal::What::kNotOurs: return "not_ours";
    case Removal::What::kPartly: return "partly";
  }
  return "?";
}

nlohmann::ordered_json ToJson(const std::vector<Removal>& removals) {
  auto list = nlohmann::ordered_json::array();
  for (const Removal& one : removals)
    list.push_back({{"path", one.path}, {"action", Name(one.what)}, {"bytes", one.bytes}, {"reason", one.reason}});
  return {{"schema", "ncclwatch.clean/1"}, {"directories", std::move(list)}};
}

void PrintText(const std::vector<Removal>& removals) {
  if (removals.empty()) return Print("there is no run directory\n");
  int count = 0;
  std::uint64_t bytes = 0;
  bool dry = false;
  for (const Removal& one : removals) {
    if (one.what == Removal::What::kTooYoung) continue;
    Print("{:<12} {}{}{}\n", Name(one.what), one.path, one.reason.empty() ? "" : ": ", one.reason);
    dry |= one.what == Removal::What::kWouldRemove;
    if (one.what != Removal::What::kRemoved && one.what != Removal::What::kWouldRemove) continue;
    ++count;
    bytes += one.bytes;
  }
  Print("{} run director{} {}, {:.1f} MiB\n", count, count == 1 ? "y" : "ies", dry ? "would be removed" : "removed",
        static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

int Clean(const Command& self, const Arguments& arguments) {
  Options options(self, kCleanHelp);
  std::string older_than;
  std::vector<std::string> words;
  options.add_option("DIR", words, "only these run directories, or those in these folders (default: all)")
      ->type_name("");
  bool dry_run = false, all = false, json = false;
  options.add_option("--older-than", older_than, "only directories untouched for this long: 7d, 12h, 30m")
      ->type_name("AGE");
  options.add_flag("--dry-run", dry_run, "print what would be removed, remove nothing");
  options.add_flag("--all", all, "also directories in which no process has left a black box (yet)");
  options.add_flag("--json", json, "print as JSON (schema ncclwatch.clean/1)");
  if (const auto status = options.Read(arguments)) return *status;
  RemovalRequest request;
  request.dry_run = dry_run;
  request.empty_too = all;
  if (!older_than.empty()) {
    const auto age = ParseDuration(older_than);
    if (!age) return UsageError(self, "--older-than takes an age like 7d, 12h or 30m, not '" + older_than + "'");
    request.older_than = *age;
  }
  for (const std::string& word : words)
    if (access(word.c_str(), F_OK) != 0) return Unreadable(self, absl::ErrnoToStatus(errno, word));

  const std::vector<std::string> places = RemovablePlaces(words);
  std::vector<Removal> removals;
  Progress progress("removing", places.size());
  for (const std::string& place : places) {
    removals.push_back(RemovePlace(place, request));
    progress.Done(removals.size());
  }
  json ? PrintJson(ToJson(removals)) : PrintText(removals);
  const bool partly = std::any_of(removals.begin(), removals.end(),
                                  [](const Removal& one) { return one.what == Removal::What::kPartly; });
  return partly ? kProblem : kDone;
}

}  // namespace ncclwatch::analyzer
