// `ncclwatch top`: a job as it goes on, on the terminal.
#include <absl/time/clock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "analyzer/commands/options/attempt_option.h"
#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/signals.h"
#include "analyzer/top/assess.h"
#include "analyzer/top/frame.h"
#include "analyzer/top/json.h"
#include "analyzer/top/look.h"
#include "analyzer/top/screen.h"

namespace ncclwatch::analyzer {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr char kTopHelp[] =
    "Show a live job: for each rank and communicator its position, the state of its newest call, how many\n"
    "collectives it is behind, calls and bytes per second; the time of a step; the last rank; findings.\n\n"
    "DIR is a run directory; `latest`, or no argument, is the newest one on this machine. Ranks with a black box in\n"
    "it have rows; the others are named. If the job has ended, the last state is shown. Keys: q quit, p pause, s\n"
    "sort, r reverse, / filter, h help.\n\n"
    "Exit status: 0 done, 2 usage, 3 if no black box can be read.";

// Numbers a second need two looks.
top::Job LookOnce(const std::string& directory, milliseconds interval) {
  top::Sampler looker(directory);
  top::Job job = looker.Look();
  if (job.alive > 0) {
    for (const auto until = Clock::now() + interval; Clock::now() < until && !Ended();)
      std::this_thread::sleep_for(std::min(interval, milliseconds(20)));
    job = looker.Look();
  }
  job.assessment = top::Assess(directory, TopologyOfTheJob("top"));
  return job;
}

int Once(const Command& self, const Located& located, milliseconds interval, bool json) {
  const std::string& directory = located.paths.front();
  const top::Job job = LookOnce(directory, interval);
  for (const std::string& failure : job.unreadable) Complain("", "{}", failure);
  if (job.processes.empty()) return Unreadable(self, absl::NotFoundError(directory + ": no black box in it"));
  if (json) {
    auto result = ToJson(job);
    result["attempts"] = ToJson(located.attempts);
    PrintJson(result);
  } else {
    WriteOut(WholeText(job));
  }
  return kDone;
}

int Live(const Command& self, const std::string& directory, milliseconds interval) {
  top::Sampler looker(directory);
  top::Job job = looker.Look();
  if (job.processes.empty()) return Unreadable(self, absl::NotFoundError(directory + ": no black box in it"));
  top::Assessor assessor(directory, TopologyOfTheJob("top"));
  const auto screen = top::Screen::Open();
  if (!screen.ok()) return Unreadable(self, screen.status());
  top::Display display;
  auto next = Clock::now() + interval;
  for (top::Press press; !Ended() && display.Take(press);) {
    if (!display.paused() && Clock::now() >= next) {
      job = looker.Look();
      assessor.SetOver(job.alive == 0);
      next = Clock::now() + interval;
    }
    if (!display.paused()) job.assessment = assessor.Newest();
    const std::string clock = ClockText(absl::Now()).substr(0, 8);
    (*screen)->Show(display.Draw(job, clock, (*screen)->width(), (*screen)->height()));
    const auto left = std::chrono::duration_cast<milliseconds>(next - Clock::now());
    press = (*screen)->Wait(display.paused() ? interval : std::max(left, milliseconds(1)));
  }
  return kDone;
}

}  // namespace

int Top(const Command& self, const Arguments& arguments) {
  Options options(self, kTopHelp);
  std::string word;
  bool once = false, json = false;
  double interval_s = 0.5;
  AttemptChoice choice{.number = std::nullopt, .prefer = Prefer::kLiving};
  options.add_option("DIR", word, "run directory (default: the newest one)")->type_name("");
  options.add_flag("--once", once, "print the state once, as where stdout is no terminal");
  DeclareAttempt(&options, &choice);
  options.add_flag("--json", json, "print it once as JSON (schema ncclwatch.top/1)");
  options.add_option("--interval", interval_s, "seconds between two looks (default: 0.5)")
      ->type_name("S")
      ->check(CLI::Range(0.1, 60.0));
  if (const auto status = options.Read(arguments)) return *status;
  const auto located = Locate(word.empty() ? std::vector<std::string>() : std::vector{word}, choice);
  if (!located.ok()) return Unreadable(self, located.status());
  SayWhichAttempt(located->attempts);
  CatchSignals();
  constexpr int kNice = 10;  // the job comes first
  setpriority(PRIO_PROCESS, 0, kNice);
  const milliseconds interval(static_cast<std::int64_t>(interval_s * 1000));
  const char* const term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  const bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !dumb;
  return once || json || !terminal ? Once(self, *located, interval, json)
                                   : Live(self, located->paths.front(), interval);
}

}  // namespace ncclwatch::analyzer
