// `ncclwatch attach`: a first verdict for a job that runs without ncclwatch.
#include <nlohmann/json.hpp>

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "analyzer/attach/find_jobs.h"
#include "analyzer/attach/judge.h"
#include "analyzer/attach/meet.h"
#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/terminal.h"
#include "analyzer/console/units.h"
#include "analyzer/files/output_file.h"
#include "analyzer/stacks/show/text.h"
#include "core/report/render.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kAttachHelp[] =
    "Say where the ranks of a running job stand, and who keeps the others waiting. The job needs no preload and no\n"
    "restart.\n\n"
    "Without a PID it looks for your processes that a launcher (torchrun, srun, mpirun) has given a rank, and for\n"
    "workers with a rank in their title. It reads their stacks several times from outside: the command writes\n"
    "nothing into them, sends no signal and does not touch threads that sleep.\n\n"
    "Certainty is at most `likely`: where ranks stand is known, but not their calls before.\n"
    "Exit status: 0 nothing found, 1 a problem was found, 2 usage, 3 no job was found or nothing could be read.";

struct AttachRequest {
  std::vector<int> pids;
  std::string user, meet, report;
  double watch_s = 0;
  bool json = false;
};

void Declare(Options* options, AttachRequest* request) {
  options->add_option("PID", request->pids, "processes of the job (default: look for one)")->type_name("");
  options->add_option("--user", request->user, "look at the jobs of this user (root only)")->type_name("USER");
  options->add_option("--watch", request->watch_s, "look again every N seconds, until interrupted")
      ->type_name("N")
      ->check(CLI::Range(1.0, 86400.0));
  options->add_option("--meet", request->meet, "join what is seen on other nodes at this address")
      ->type_name("HOST:PORT");
  options->add_option("--report", request->report, "also write the verdict and all stacks into this file")
      ->type_name("FILE");
  options->add_flag("--json", request->json, "print as JSON (schema ncclwatch.diagnosis/1 with roll_call)");
}

std::optional<uid_t> UserOf(const std::string& name) {
  if (name.empty()) return geteuid();
  if (uid_t number = 0; ParseNumber(name, &number)) return number;
  const passwd* const entry = getpwnam(name.c_str());
  return entry == nullptr ? std::nullopt : std::optional(entry->pw_uid);
}

// Root must mean it.
std::optional<int> SomebodyElses(const std::vector<int>& pids, uid_t user) {
  for (const int pid : pids) {
    struct stat owner {};
    if (stat(fmt::format("/proc/{}", pid).c_str(), &owner) == 0 && owner.st_uid != user) return pid;
  }
  return std::nullopt;
}

// One of several must be named.
int ListJobs(const Command& self, const std::vector<attach::RunningJob>& jobs) {
  Complain(self.name, "{} jobs run here; name a process of one:", jobs.size());
  for (const attach::RunningJob& job : jobs)
    Complain("", "  ncclwatch attach {}   {}, {} ranks here", job.ranks.front().pid, job.name, job.ranks.size());
  return kUsage;
}

void Show(const AttachRequest& request, const diagnosis::Diagnosis& verdict, const attach::RollCall& call) {
  if (request.json) return PrintJson(attach::ToJson(verdict, call));
  if (verdict.clean()) {
    const bool moving = std::any_of(call.ranks.begin(), call.ranks.end(), [](const auto& one) { return one.moving; });
    Print("{}\n\n",
          moving ? "moving: no rank keeps the others waiting" : "standing: no rank is seen to keep the others waiting");
    WriteOut(attach::ToText(call) + "\n");
    for (const std::string& note : verdict.notes) Print("note: {}\n", note);
    return;
  }
  WriteOut(DiagnosisFor(STDOUT_FILENO, verdict));
}

absl::Status WriteReportFile(const std::string& path, const diagnosis::Diagnosis& verdict,
                             const attach::RollCall& call) {
  OutputFile file;
  if (absl::Status status = file.Open(path); !status.ok()) return status;
  const std::string text =
      diagnosis::ToText(verdict) + "\n" + attach::ToText(call) + "\n" + stacks::MergedText(call.last);
  if (absl::Status status = file.Write(text); !status.ok()) return status;
  return file.Close();
}

int LookOnce(const Command& self, const AttachRequest& request, attach::RunningJob job) {
  constexpr std::int64_t kMeet_ns = 15 * kSecond;
  attach::RollCall call = attach::CallRoll(job, std::chrono::seconds(4));
  const bool none =
      std::all_of(call.ranks.begin(), call.ranks.end(), [](const auto& one) { return !one.trouble.empty(); });
  if (!request.meet.empty()) {
    std::string why;
    const attach::Met met = attach::Meet(request.meet, kMeet_ns, &job, &call, &why);
    if (met == attach::Met::kMember) {
      Complain(self.name, "{} ranks told to {}, which prints the verdict", call.ranks.size(), request.meet);
      return kDone;
    }
    if (met == attach::Met::kAlone) Complain(self.name, "nobody met at {}: {}", request.meet, why);
  }
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const diagnosis::Diagnosis verdict = attach::Judge(job, call, now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec);
  Show(request, verdict, call);
  if (!request.report.empty())
    if (const absl::Status written = WriteReportFile(request.report, verdict, call); !written.ok())
      Complain(self.name, "{}", std::string(written.message()));
  if (none) return kUnreadable;
  return verdict.clean() ? kDone : kProblem;
}

}  // namespace

int Attach(const Command& self, const Arguments& arguments) {
  Options options(self, kAttachHelp);
  AttachRequest request;
  Declare(&options, &request);
  if (const auto status = options.Read(arguments)) return *status;
  const std::optional<uid_t> user = UserOf(request.user);
  if (!user) return UsageError(self, "there is no user " + request.user);
  if (*user != geteuid() && geteuid() != 0) return UsageError(self, "only root may look at the jobs of others");
  if (const auto pid = geteuid() == 0 ? SomebodyElses(request.pids, *user) : std::nullopt)
    return UsageError(self, fmt::format("process {} belongs to another user: --user must name that user", *pid));
  for (;;) {
    std::vector<attach::RunningJob> jobs =
        request.pids.empty() ? attach::FindJobs(*user) : attach::JobsOf(request.pids, *user);
    if (jobs.empty()) {
      Complain(self.name, "no job found: no process {} has a rank and a library of NCCL, MPI or torch in it",
               request.pids.empty() ? "of this user" : "of those named");
      return kUnreadable;
    }
    if (jobs.size() > 1) return ListJobs(self, jobs);
    const int status = LookOnce(self, request, jobs.front());
    if (request.watch_s == 0) return status;
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::duration<double>(request.watch_s));
  }
}

}  // namespace ncclwatch::analyzer
