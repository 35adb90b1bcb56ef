// `ncclwatch off` and `ncclwatch on`: the switch of a live job.
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <thread>

#include "analyzer/console/options.h"
#include "analyzer/console/terminal.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/lease_file.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::int64_t kPatience = 3 * kSecond;  // sixty turns of a watchdog thread
constexpr std::chrono::milliseconds kPoll(20);

struct Standing {
  int alive = 0;
  int obeying = 0;
  std::vector<int> others;  // ranks that do not show it
};

Standing Look(const std::string& path, bool on) {
  Standing standing;
  const descriptors::Directory directory = descriptors::Directory::Named(path);
  for (const std::string& file : BoxFiles(path)) {
    const std::string name = file.substr(file.rfind('/') + 1);
    if (!LockHeld(directory, name)) continue;
    const std::optional<reader::Glance> box = reader::GlanceAt(directory, name);
    if (!box) continue;
    ++standing.alive;
    if (box->watching == on)
      ++standing.obeying;
    else
      standing.others.push_back(box->rank);
  }
  return standing;
}

int Say(const std::string& directory, const Standing& standing, bool on, bool json) {
  const bool done = standing.obeying == standing.alive;
  if (json) {
    const nlohmann::ordered_json all = {
        {"schema", "ncclwatch.switch/1"}, {"path", Printable(directory)}, {"watching", on},
        {"processes", standing.alive},    {"done", standing.obeying},     {"not_done_ranks", standing.others}};
    std::puts(PrintableJson(all.dump(2)).c_str());
    return done ? kDone : kProblem;
  }
  std::printf("%s: %d of %d processes %s\n", Printable(directory).c_str(), standing.obeying, standing.alive,
              on ? "watch" : "no longer watch");
  if (!done) {
    std::string ranks;
    for (int rank : standing.others) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    std::printf("not yet: rank %s (a stopped process does so when it runs again)\n", ranks.c_str());
  }
  return done ? kDone : kProblem;
}

int Switch(const Arguments& arguments, bool on) {
  const std::string name = on ? "on" : "off";
  Options options(name,
                  std::string(on ? "Resume watching a live job." : "Stop watching a live job without restarting it.") +
                      "\n\nReturns when every process of it on this machine shows so, or after 3 s.\n"
                      "Exit status: 0 done, 1 if a process does not show it or none lives, 2 usage, 3 if there\n"
                      "is no such job.");
  std::string word;
  bool json = false;
  options.add_option("DIR", word, "run directory; without it the newest")->type_name("");
  options.add_flag("--json", json, "print as JSON (schema ncclwatch.switch/1)");
  if (const auto status = options.Read(arguments)) return *status;

  const auto paths = Locate(word.empty() ? std::vector<std::string>{} : std::vector<std::string>{word});
  if (const auto* missing = std::get_if<Missing>(&paths)) {
    std::fprintf(stderr, "ncclwatch %s: %s\n", name.c_str(), Printable(missing->reason).c_str());
    return kUnreadable;
  }
  const std::string directory = std::get<std::vector<std::string>>(paths).front();
  if (Look(directory, on).alive == 0) {
    std::fprintf(stderr, "ncclwatch %s: %s: no process of this job lives\n", name.c_str(),
                 Printable(directory).c_str());
    return BoxFiles(directory).empty() ? kUnreadable : kProblem;
  }
  if (const std::string reason = SwitchWatching(directory, on); !reason.empty()) {
    std::fprintf(stderr, "ncclwatch %s: %s\n", name.c_str(), Printable(reason).c_str());
    return kUnreadable;
  }
  const std::int64_t deadline = MonotonicNow() + kPatience;
  Standing standing = Look(directory, on);
  while (standing.obeying < standing.alive && MonotonicNow() < deadline) {
    std::this_thread::sleep_for(kPoll);
    standing = Look(directory, on);
  }
  return Say(directory, standing, on, json);
}

}  // namespace

int Off(const Arguments& arguments) { return Switch(arguments, false); }
int On(const Arguments& arguments) { return Switch(arguments, true); }

}  // namespace ncclwatch::analyzer
