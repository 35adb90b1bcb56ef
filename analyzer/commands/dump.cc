// `ncclwatch dump`: a live job's evidence now, a fault or none.
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "analyzer/console/options.h"
#include "analyzer/console/terminal.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/gather.h"
#include "analyzer/jobs/lease_file.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/verdict.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kDescription[] =
    "Ask a live job for its evidence now, whether anything is wrong or not: the stacks of all its processes on this\n"
    "machine and what the system says of them, in DIR/stacks and DIR/evidence (and in NCCLWATCH_OUT, where the job\n"
    "has it). The job goes on as before. Without a leader that lives this command looks itself.\n"
    "Exit status: 0 done, 1 if the evidence is not whole or no process lives, 2 usage, 3 if there is no such job.";

constexpr std::int64_t kPatience = 20 * kSecond;     // for a leader that begins; its own limits are below
constexpr std::int64_t kLeaderSilent = 3 * kSecond;  // longer than any of its followers would wait
constexpr std::chrono::milliseconds kPoll(20);
constexpr std::size_t kMostText = 256 << 10;  // of merged stacks on a terminal

struct Answer {
  bool by_leader = false;
  std::string reason;  // why it is not whole, empty if it is
};

// No process of the job shows a leader's heartbeat.
bool Leaderless(const LeaseFile& lease) {
  return (lease->holder.load(std::memory_order_acquire) & 0xffffffffu) == 0 ||
         MonotonicNow() - lease->heartbeat_ns.load(std::memory_order_acquire) > kLeaderSilent;
}

Answer Ask(const std::string& directory) {
  Answer answer;
  const LeaseFile lease(directory);
  if (lease.reason().empty()) {
    const std::uint64_t ticket = lease->evidence_wanted.fetch_add(1, std::memory_order_acq_rel) + 1;
    const std::int64_t deadline = MonotonicNow() + kPatience;
    while (MonotonicNow() < deadline && !Leaderless(lease)) {
      if (lease->evidence_given.load(std::memory_order_acquire) >= ticket) {
        answer.by_leader = true;
        return answer;
      }
      std::this_thread::sleep_for(kPoll);
    }
  }
  answer.reason = GatherEvidence(directory);
  return answer;
}

nlohmann::ordered_json Describe(const std::vector<Standing>& processes) {
  auto list = nlohmann::ordered_json::array();
  for (const Standing& process : processes) {
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

void PrintJson(const std::string& directory, const std::vector<Standing>& processes, const Answer& answer) {
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
  std::puts(PrintableJson(all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)).c_str());
}

void PrintText(const std::string& directory, const std::vector<Standing>& processes, const Answer& answer) {
  const auto seen =
      std::count_if(processes.begin(), processes.end(), [](const auto& one) { return one.stacks.has_value(); });
  std::printf("%s: stacks of %td of %zu processes in stacks/, their states in evidence/%s\n",
              Printable(directory).c_str(), seen, processes.size(),
              answer.by_leader ? "" : " (no leader lives: read by this command)");
  if (HasFault(directory)) std::printf("diagnosis: %s/%s\n", Printable(directory).c_str(), kDiagnosisJson);
  if (!answer.reason.empty()) std::printf("not whole: %s\n", Printable(answer.reason).c_str());
  const auto merged = rundir::ReadSmall(descriptors::Directory::Named(directory), "stacks/merged.txt", kMostText);
  if (!merged) return;
  std::putchar('\n');
  for (std::size_t at = 0; at < merged->size();) {
    const std::size_t end = std::min(merged->find('\n', at), merged->size());
    std::puts(Printable(merged->substr(at, end - at)).c_str());
    at = end + 1;
  }
}

}  // namespace

int Dump(const Arguments& arguments) {
  Options options("dump", kDescription);
  std::string word;
  bool json = false;
  options.add_option("DIR", word, "run directory; without it the newest")->type_name("");
  options.add_flag("--json", json, "print as JSON (schema ncclwatch.dump/1)");
  if (const auto status = options.Read(arguments)) return *status;

  const auto paths = Locate(word.empty() ? std::vector<std::string>{} : std::vector<std::string>{word});
  if (const auto* missing = std::get_if<Missing>(&paths)) {
    std::fprintf(stderr, "ncclwatch dump: %s\n", Printable(missing->reason).c_str());
    return kUnreadable;
  }
  const std::string directory = std::get<std::vector<std::string>>(paths).front();
  const std::int64_t began = MonotonicNow();
  if (LivingProcesses(directory, began).empty()) {
    std::fprintf(stderr, "ncclwatch dump: %s: no process of this job lives; `ncclwatch diagnose` reads what it left\n",
                 Printable(directory).c_str());
    return BoxFiles(directory).empty() ? kUnreadable : kProblem;
  }
  Answer answer = Ask(directory);
  const std::vector<Standing> processes = LivingProcesses(directory, began);
  const bool any =
      std::any_of(processes.begin(), processes.end(), [](const auto& one) { return one.stacks.has_value(); });
  if (!any && answer.reason.empty()) answer.reason = "no stacks: the leader has said why on the job's stderr";
  json ? PrintJson(directory, processes, answer) : PrintText(directory, processes, answer);
  return answer.reason.empty() ? kDone : kProblem;
}

}  // namespace ncclwatch::analyzer
