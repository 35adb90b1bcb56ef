// `ncclwatch dump`: a live job's evidence now, a fault or none.
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/gather.h"
#include "analyzer/jobs/lease_file.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/verdict.h"
#include "core/text/printable.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kDumpHelp[] =
    "Collect the evidence of a live job now, without waiting for a fault.\n\n"
    "Writes the stacks of all its processes on this machine to DIR/stacks, and their state in the operating system\n"
    "to DIR/evidence (and both to NCCLWATCH_OUT, if the job has it). The job continues. If no leader lives, this\n"
    "command examines the processes itself.\n\n"
    "Exit status: 0 done, 1 if evidence is missing or no process lives, 2 usage, 3 if there is no such job.";

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kAnswerPatience = 20s;                   // for a leader that begins; its own limits are below
constexpr std::chrono::nanoseconds kLeaderSilent = 3s;  // longer than any of its followers would wait
constexpr auto kAnswerPoll = 20ms;
constexpr std::size_t kMostText = 256 << 10;  // of merged stacks on a terminal

struct Answer {
  bool by_leader = false;
  std::string reason;  // why it is not whole, empty if it is
};

// No process of the job shows a leader's heartbeat.
bool Leaderless(const format::Lease& lease) {
  return (lease.holder.load(std::memory_order_acquire) & 0xffffffffu) == 0 ||
         MonotonicNow() - lease.heartbeat_ns.load(std::memory_order_acquire) > kLeaderSilent.count();
}

Answer Ask(const std::string& directory) {
  Answer answer;
  if (const auto opened = OpenLease(directory); opened.ok()) {
    format::Lease& lease = **opened;
    const std::uint64_t ticket = lease.evidence_wanted.fetch_add(1, std::memory_order_acq_rel) + 1;
    const auto deadline = Clock::now() + kAnswerPatience;
    while (Clock::now() < deadline && !Leaderless(lease)) {
      if (lease.evidence_given.load(std::memory_order_acquire) >= ticket) {
        answer.by_leader = true;
        return answer;
      }
      std::this_thread::sleep_for(kAnswerPoll);
    }
  }
  answer.reason = GatherEvidence(directory);
  return answer;
}

nlohmann::ordered_json Describe(const std::vector<LivingProcess>& processes) {
  auto list = nlohmann::ordered_json::array();
  for (const LivingProcess& process : processes) {
    nlohmann::ordered_json one = {{"rank", nullptr},  {"host", Printable(process.host)},          {"pid", process.pid},
                                  {"state", nullptr}, {"where", nlohmann::ordered_json::array()}, {"stacks", nullptr}};
    if (process.rank >= 0) one["rank"] = process.rank;
    if (process.stacks) {
      one["state"] = process.stacks->state;
      one["where"] = process.stacks->where;
      one["stacks"] = Printable(process.file);
    }
    list.push_back(std::move(one));
  }
  return list;
}

nlohmann::ordered_json ToJson(const std::string& directory, const std::vector<LivingProcess>& processes,
                              const Answer& answer) {
  nlohmann::ordered_json all = {{"schema", "ncclwatch.dump/1"},
                                {"path", Printable(directory)},
                                {"by", answer.by_leader ? "leader" : "command"},
                                {"whole", answer.reason.empty()},
                                {"reason", nullptr},
                                {"diagnosis", nullptr},
                                {"merged", nullptr},
                                {"processes", Describe(processes)}};
  if (!answer.reason.empty()) all["reason"] = Printable(answer.reason);
  if (HasFault(directory)) all["diagnosis"] = Printable(directory + "/" + kDiagnosisJson);
  const std::string merged = directory + "/stacks/merged.txt";
  if (access(merged.c_str(), R_OK) == 0) all["merged"] = Printable(merged);
  return all;
}

void PrintText(const std::string& directory, const std::vector<LivingProcess>& processes, const Answer& answer) {
  const auto seen =
      std::count_if(processes.begin(), processes.end(), [](const auto& one) { return one.stacks.has_value(); });
  Print("{}: stacks of {} of {} processes in stacks/, their states in evidence/{}\n", directory, seen, processes.size(),
        answer.by_leader ? "" : " (no leader lives: read by this command)");
  if (HasFault(directory)) Print("diagnosis: {}/{}\n", directory, kDiagnosisJson);
  if (!answer.reason.empty()) Print("not whole: {}\n", answer.reason);
  const auto merged = rundir::ReadSmall(descriptors::Directory::Named(directory), "stacks/merged.txt", kMostText);
  if (merged) Print("\n{}{}", *merged, merged->empty() || merged->ends_with('\n') ? "" : "\n");
}

}  // namespace

int Dump(const Command& self, const Arguments& arguments) {
  Options options(self, kDumpHelp);
  std::string word;
  bool json = false;
  options.add_option("DIR", word, "run directory (default: the newest)")->type_name("");
  options.add_flag("--json", json, "print as JSON (schema ncclwatch.dump/1)");
  if (const auto status = options.Read(arguments)) return *status;

  const auto located = LocateOne(word);
  if (!located.ok()) return Unreadable(self, located.status());
  const std::string& directory = *located;
  const std::int64_t began = MonotonicNow();
  if (LivingProcesses(directory, began).empty()) {
    Complain(self.name, "{}: no process of this job lives; `ncclwatch diagnose` reads what it left", directory);
    return BoxFiles(directory).empty() ? kUnreadable : kProblem;
  }
  Answer answer = Ask(directory);
  const std::vector<LivingProcess> processes = LivingProcesses(directory, began);
  const bool any =
      std::any_of(processes.begin(), processes.end(), [](const auto& one) { return one.stacks.has_value(); });
  if (!any && answer.reason.empty()) answer.reason = "no stacks: the leader has said why on the job's stderr";
  json ? PrintJson(ToJson(directory, processes, answer)) : PrintText(directory, processes, answer);
  return answer.reason.empty() ? kDone : kProblem;
}

}  // namespace ncclwatch::analyzer
