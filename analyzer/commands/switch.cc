// `ncclwatch off` and `ncclwatch on`: the switch of a live job.
#include <absl/strings/str_join.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <thread>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/jobs/lease_file.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::chrono::seconds kSwitchPatience(3);  // sixty turns of a watchdog thread
constexpr std::chrono::milliseconds kSwitchPoll(20);

struct SwitchState {
  int alive = 0;
  int obeying = 0;
  std::vector<int> others;  // ranks that do not show it
};

SwitchState Look(const std::string& path, bool on) {
  SwitchState state;
  const descriptors::Directory directory = descriptors::Directory::Named(path);
  for (const std::string& file : BoxFiles(path)) {
    const std::string name = file.substr(file.rfind('/') + 1);
    if (!LockHeld(directory, name)) continue;
    const std::optional<reader::Glance> box = reader::GlanceAt(directory, name);
    if (!box) continue;
    ++state.alive;
    if (box->watching == on)
      ++state.obeying;
    else
      state.others.push_back(box->rank);
  }
  return state;
}

int Say(const std::string& directory, const SwitchState& state, bool on, bool json) {
  const bool done = state.obeying == state.alive;
  if (json) {
    PrintJson({{"schema", "ncclwatch.switch/1"},
               {"path", Printable(directory)},
               {"watching", on},
               {"processes", state.alive},
               {"done", state.obeying},
               {"not_done_ranks", state.others}});
    return done ? kDone : kProblem;
  }
  Print("{}: {} of {} processes {}\n", directory, state.obeying, state.alive, on ? "watch" : "no longer watch");
  if (!done)
    Print("not yet: rank {} (a stopped process does so when it runs again)\n", absl::StrJoin(state.others, ", "));
  return done ? kDone : kProblem;
}

int Switch(const Command& self, const Arguments& arguments, bool on) {
  Options options(self,
                  std::string(on ? "Resume watching a live job." : "Stop watching a live job without restarting it.") +
                      "\n\nReturns when every process of the job on this machine has confirmed it, or after 3 s.\n"
                      "Exit status: 0 done, 1 if a process has not confirmed it or none lives, 2 usage, 3 if\n"
                      "there is no such job.");
  std::string word;
  bool json = false;
  options.add_option("DIR", word, "run directory (default: the newest)")->type_name("");
  options.add_flag("--json", json, "print as JSON (schema ncclwatch.switch/1)");
  if (const auto status = options.Read(arguments)) return *status;

  const auto located = LocateOne(word);
  if (!located.ok()) return Unreadable(self, located.status());
  const std::string& directory = *located;
  if (Look(directory, on).alive == 0) {
    Complain(self.name, "{}: no process of this job lives", directory);
    return BoxFiles(directory).empty() ? kUnreadable : kProblem;
  }
  if (const absl::Status switched = SwitchWatching(directory, on); !switched.ok()) return Unreadable(self, switched);
  const auto deadline = std::chrono::steady_clock::now() + kSwitchPatience;
  SwitchState state = Look(directory, on);
  while (state.obeying < state.alive && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kSwitchPoll);
    state = Look(directory, on);
  }
  return Say(directory, state, on, json);
}

}  // namespace

int Off(const Command& self, const Arguments& arguments) { return Switch(self, arguments, false); }
int On(const Command& self, const Arguments& arguments) { return Switch(self, arguments, true); }

}  // namespace ncclwatch::analyzer
