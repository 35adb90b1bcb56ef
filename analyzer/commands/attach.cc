// `ncclwatch attach`: a first verdict for a job that runs without ncclwatch.
#include <nlohmann/json.hpp>

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <functional>
#include <thread>

#include "analyzer/attach/find_jobs.h"
#include "analyzer/attach/judge.h"
#include "analyzer/attach/meet.h"
#include "analyzer/attach/show.h"
#include "analyzer/bundle/bundle.h"
#include "analyzer/bundle/redact_files.h"
#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/terminal.h"
#include "analyzer/console/units.h"
#include "analyzer/files/output_file.h"
#include "analyzer/report/report.h"
#include "analyzer/stacks/show/text.h"
#include "core/report/render.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;

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
  std::string user, meet, report, bundle;
  double watch_s = 0;
  bool json = false, redact = false;
};

void Declare(Options* options, AttachRequest* request) {
  options->add_option("PID", request->pids, "processes of the job (default: look for one)")->type_name("");
  options->add_option("--user", request->user, "look at the jobs of this user (root only)")->type_name("USER");
  options->add_option("--watch", request->watch_s, "look again every N seconds, until interrupted")
      ->type_name("N")
      ->check(CLI::Range(1.0, 86400.0));
  options->add_option("--meet", request->meet, "join what is seen on other nodes at this address")
      ->type_name("HOST:PORT");
  options->add_option("--report", request->report, "also write the verdict as a page, as `ncclwatch report` does")
      ->type_name("FILE");
  options->add_option("--bundle", request->bundle, "also write verdict, page and all stacks as .tar.zst")
      ->type_name("FILE");
  options->add_flag("--redact", request->redact,
                    "hide secrets, names, addresses, paths and arguments in the bundle, as `ncclwatch bundle` does");
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

absl::Status WriteToFile(const std::string& path, const std::function<absl::Status(OutputFile*)>& write) {
  OutputFile file;
  if (absl::Status status = file.Open(path); !status.ok()) return status;
  if (absl::Status status = write(&file); !status.ok()) return status;
  return file.Close();
}

std::string PageOf(const diagnosis::Diagnosis& verdict, const attach::RollCall& call) {
  std::string page;
  const auto append = [&](std::string_view part) { return page.append(part), true; };
  if (!WriteReport(verdict.job, verdict, attach::StacksSection(call), append).ok()) return "";
  return page;
}

NamesToHide NamesIn(const attach::RollCall& call) {
  NamesToHide names;
  for (const attach::Standing& one : call.ranks) {
    names.hosts.push_back(one.host);
    struct stat owner {};
    const bool known = stat(fmt::format("/proc/{}", one.pid).c_str(), &owner) == 0;
    if (const passwd* entry = known ? getpwuid(owner.st_uid) : nullptr) names.users.emplace_back(entry->pw_name);
  }
  for (const stacks::ProcessStacks& process : call.last) {
    names.commands.push_back(process.command);
    for (const stacks::Thread& thread : process.threads)
      for (const stacks::Frame& frame : thread.frames)
        names.paths.insert(frame.kind == stacks::Frame::Kind::kPython ? frame.file : frame.module_path);
  }
  return names;
}

absl::Status WriteBundleTo(OutputFile* file, bool redact, const diagnosis::Diagnosis& verdict,
                           const attach::RollCall& call) {
  std::vector<std::pair<std::string, std::string>> files = {
      {"diagnosis.json", attach::ToJson(verdict, call).dump(1, ' ', false, Json::error_handler_t::replace)},
      {"diagnosis.txt", diagnosis::ToText(verdict) + "\n" + attach::ToText(call)},
      {"stacks.txt", stacks::MergedText(call.last)}};
  // Substitutes in its data might change its scripts too.
  if (redact)
    RedactFiles(NamesIn(call), &files);
  else
    files.emplace_back("report.html", PageOf(verdict, call));
  TarZst tar([file](std::string_view part) { return file->Write(part).ok(); });
  const std::int64_t now_s = std::time(nullptr);
  for (const auto& [name, bytes] : files) tar.File("attach/" + name, bytes, now_s);
  tar.Finish();
  return absl::OkStatus();
}

void WriteFiles(const Command& self, const AttachRequest& request, const diagnosis::Diagnosis& verdict,
                const attach::RollCall& call) {
  const auto complain = [&](const absl::Status& status) {
    if (!status.ok()) Complain(self.name, "{}", std::string(status.message()));
  };
  if (!request.report.empty())
    complain(WriteToFile(request.report, [&](OutputFile* file) { return file->Write(PageOf(verdict, call)); }));
  if (!request.bundle.empty())
    complain(WriteToFile(request.bundle,
                         [&](OutputFile* file) { return WriteBundleTo(file, request.redact, verdict, call); }));
}

int NoJob(const Command& self, const AttachRequest& request) {
  Complain(self.name, "no job found: no process {} has a rank and a library of NCCL, MPI or torch in it",
           request.pids.empty() ? "of this user" : "of those named");
  return kUnreadable;
}

// Under Slurm its own job's, if there are several.
std::vector<attach::RunningJob> JobsToLookAt(const AttachRequest& request, uid_t user) {
  std::vector<attach::RunningJob> jobs =
      request.pids.empty() ? attach::FindJobs(user) : attach::JobsOf(request.pids, user);
  const std::string own = attach::OwnSlurmJob();
  const auto is_own = [&](const attach::RunningJob& job) { return job.slurm_job == own; };
  if (!own.empty() && jobs.size() > 1 && std::any_of(jobs.begin(), jobs.end(), is_own))
    std::erase_if(jobs, [&](const attach::RunningJob& job) { return !is_own(job); });
  return jobs;
}

int LookOnce(const Command& self, const AttachRequest& request, attach::RunningJob job) {
  constexpr std::int64_t kMeet_ns = 15 * kSecond;
  attach::RollCall call = job.ranks.empty() ? attach::RollCall() : attach::CallRoll(job, std::chrono::seconds(4));
  if (!request.meet.empty() || attach::IsOneOfSeveral()) {
    const std::string place = request.meet.empty() ? "the first task" : request.meet;
    std::string why;
    const attach::Met met = attach::Meet(request.meet, kMeet_ns, &job, &call, &why);
    if (met == attach::Met::kMember) {
      Complain(self.name, "{} ranks told to {}, which prints the verdict", call.ranks.size(), place);
      return kDone;
    }
    if (met == attach::Met::kAlone) Complain(self.name, "{} was not met: {}", place, why);
  }
  if (call.ranks.empty()) return NoJob(self, request);
  const bool none =
      std::all_of(call.ranks.begin(), call.ranks.end(), [](const auto& one) { return !one.trouble.empty(); });
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const diagnosis::Diagnosis verdict = attach::Judge(job, call, now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec);
  Show(request, verdict, call);
  WriteFiles(self, request, verdict, call);
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
  if (request.redact && request.bundle.empty()) return UsageError(self, "--redact is about --bundle");
  if (*user != geteuid() && geteuid() != 0) return UsageError(self, "only root may look at the jobs of others");
  if (const auto pid = geteuid() == 0 ? SomebodyElses(request.pids, *user) : std::nullopt)
    return UsageError(self, fmt::format("process {} belongs to another user: --user must name that user", *pid));
  if (request.meet.empty() && attach::IsSpare()) return kDone;
  for (;;) {
    std::vector<attach::RunningJob> jobs = JobsToLookAt(request, *user);
    // Another node may have some.
    if (jobs.empty() && request.meet.empty() && !attach::IsOneOfSeveral()) return NoJob(self, request);
    if (jobs.empty()) jobs.emplace_back();
    if (jobs.size() > 1) return ListJobs(self, jobs);
    const int status = LookOnce(self, request, jobs.front());
    if (request.watch_s == 0) return status;
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::duration<double>(request.watch_s));
  }
}

}  // namespace ncclwatch::analyzer
