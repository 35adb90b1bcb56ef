// `ncclwatch doctor`: is this machine, and are all ranks alike, ready to run?
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/counters.h"
#include "analyzer/doctor/known_versions.h"
#include "analyzer/doctor/own_checks.h"
#include "analyzer/doctor/ranks/meeting.h"
#include "analyzer/doctor/report.h"
#include "analyzer/files/input_file.h"
#include "watchdog/settings/settings.h"

namespace ncclwatch::analyzer {
namespace {

using namespace ncclwatch::doctor;  // NOLINT(google-build-using-namespace)

constexpr char kDoctorHelp[] =
    "Say what would keep a job from running well, before it runs.\n\n"
    "Without a launcher it checks this machine. Under a launcher (`srun ncclwatch doctor`, `mpirun ncclwatch\n"
    "doctor`, `torchrun --no-python ... ncclwatch doctor`) every rank checks its own machine, and rank 0 prints one\n"
    "report, with the ranks that did not come, hosts that do not reach one another, clocks that differ, and\n"
    "differences in versions and variables.\n\n"
    "It changes nothing and loads nothing. --active also measures each component by itself, and the network between\n"
    "hosts. A PROGRAM after `--` is inspected, not run.\n\n"
    "FAIL: a run would fail. WARN: it may fail, be slow, or be hard to diagnose. SKIP: not checked, with the\n"
    "reason. MANUAL: no program can check this; listed with --phase.\n\n"
    "Exit status: 0 no FAIL, 1 a FAIL, 2 usage, 3 a file of checks could not be read.";

struct DoctorRequest {
  std::string phase, checks, checkpoint, root, counters, meet, wait = "15s", precision = "bf16", optimizer = "adam",
                                                               activations;
  std::vector<std::string> only, command;
  double parameters = 0, shards = 1;
  bool active = false, all = false, json = false;
};

void Declare(Options* options, DoctorRequest* request) {
  options->add_flag("--active", request->active,
                    "measure too: a core, memory, a file, a worker process, the network between hosts");
  options->add_option("--phase", request->phase, "first-run, scale-up or long-run: what matters before it")
      ->type_name("PHASE")
      ->check(CLI::IsMember({"first-run", "scale-up", "long-run"}));
  options->add_option("--checks", request->checks, "checks of your own, TOML: a command and what it has to say")
      ->type_name("FILE");
  options->add_option("--only", request->only, "these checks alone")->type_name("ID,...")->delimiter(',');
  options->add_option("--checkpoint", request->checkpoint, "the folder of checkpoints (CHECKPOINT_DIR)")
      ->type_name("DIR");
  options->add_option("--parameters", request->parameters, "of the model, for the memory budget: 7e9")->type_name("N");
  options
      ->add_option("--precision", request->precision,
                   "of parameters and gradients: fp32, bf16, fp16 or fp8 (default: bf16)")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "fp8"}));
  options->add_option("--optimizer", request->optimizer, "adam keeps 12 bytes for a parameter, sgd 4, none 0 (adam)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"adam", "sgd", "none"}));
  options->add_option("--shards", request->shards, "ranks that share parameters, gradients and optimizer (1)")
      ->type_name("N");
  options->add_option("--activations", request->activations, "bytes of a rank: 20G")->type_name("SIZE");
  options->add_option("--meet", request->meet, "where rank 0 listens, if the launcher does not tell it")
      ->type_name("HOST:PORT");
  options->add_option("--wait", request->wait, "for ranks to come (15s)")->type_name("TIME");
  options->add_option("--root", request->root, "look at the files below this folder instead of /")->type_name("DIR");
  options
      ->add_option("--counters", request->counters,
                   "check nothing: add what this machine has counted of errors since the last time to FILE")
      ->type_name("FILE");
  options->add_flag("--all", request->all, "list what passed or was skipped too");
  options->add_flag("--json", request->json, "print JSON");
}

MemoryBudget BudgetOf(const DoctorRequest& request) {
  MemoryBudget budget;
  budget.parameters = request.parameters;
  budget.bytes_of_parameter = request.precision == "fp32" ? 4 : request.precision == "fp8" ? 1 : 2;
  budget.bytes_of_optimizer = request.optimizer == "adam"  ? (request.precision == "fp32" ? 8 : 12)
                              : request.optimizer == "sgd" ? 4
                                                           : 0;
  budget.shards = std::max(1.0, request.shards);
  budget.activations = ParseBytes(request.activations).value_or(0);
  return budget;
}

Machine MachineOf(const DoctorRequest& request) {
  Machine machine(request.root, Machine::OwnEnvironment());
  machine.budget = BudgetOf(request);
  machine.checkpoint =
      request.checkpoint.empty() ? machine.Variable("CHECKPOINT_DIR").value_or("") : request.checkpoint;
  machine.command = request.command;
  return machine;
}

// Those of several ranks are made by rank 0.
constexpr const char* kAcross[] = {"ranks-came",   "ranks-proven",  "host-map", "reachability",  "clock-skew",
                                   "version-skew", "variable-skew", "latency",  "pair-bandwidth"};

// It goes by what the others found.
constexpr char kKnownBadVersions[] = "known-bad-versions";

bool IsWanted(const DoctorRequest& request, std::string_view id) {
  return request.only.empty() || std::find(request.only.begin(), request.only.end(), id) != request.only.end();
}

std::string UnknownId(const DoctorRequest& request, const std::vector<OwnCheck>& own) {
  std::set<std::string, std::less<>> known(std::begin(kAcross), std::end(kAcross));
  for (const Check& check : ChecksOfOneRank()) known.emplace(check.id);
  for (const OwnCheck& check : own) known.insert(check.id);
  known.insert(kKnownBadVersions);
  for (const std::string& id : request.only)
    if (!known.contains(id)) return id;
  return "";
}

std::vector<Finding> LookAround(const DoctorRequest& request, const Machine& machine,
                                const std::vector<OwnCheck>& own) {
  const unsigned phase = PhaseNamed(request.phase).value_or(kAnyPhase);
  std::vector<Finding> findings;
  for (const Check& check : ChecksOfOneRank()) {
    const bool manual = check.id.starts_with("manual-"), named = !request.only.empty() && IsWanted(request, check.id);
    if (!IsWanted(request, check.id)) continue;
    if (!named && ((manual && request.phase.empty()) || (check.phases & phase) == 0)) continue;
    const bool asked = !check.active || request.active || named;
    findings.push_back({std::string(check.id), asked ? check.look(machine) : Skip("measured with --active"), {}});
  }
  for (const OwnCheck& check : own)
    if (IsWanted(request, check.id) && (check.phases & phase) != 0) findings.push_back({check.id, Run(check), {}});
  return findings;
}

doctor::JobReport Conclude(const DoctorRequest& request, const Gathered& gathered, int world_size) {
  doctor::JobReport report;
  report.ranks = static_cast<int>(gathered.ranks.size());
  std::set<std::string> hosts;
  for (const RankReport& one : gathered.ranks) hosts.insert(one.host);
  report.hosts = static_cast<int>(hosts.size());
  report.checks = Merge(gathered);
  report.differences = DifferencesOf(gathered);
  for (Finding& one : CompareRanks(gathered, report.differences, world_size, request.active))
    if (IsWanted(request, one.id)) report.checks.push_back(std::move(one));
  return report;
}

MeetingPlace MeetingPlaceOf(const Machine& machine, const DoctorRequest& request) {
  const settings::Settings settings = settings::OfThisProcess();  // the check of NCCLWATCH_* reports complaints
  const auto lookup = [&](std::string_view name) -> std::optional<std::string_view> {
    const auto found = machine.environment().find(std::string(name));
    return found == machine.environment().end() ? std::nullopt : std::optional<std::string_view>(found->second);
  };
  return PlaceOf(lookup, settings, request.meet);
}

constexpr std::uint64_t kMostBytesOfChecks = 16 << 20;

absl::StatusOr<std::vector<OwnCheck>> OwnChecksOf(const DoctorRequest& request) {
  if (request.checks.empty()) return std::vector<OwnCheck>();
  const auto text = ReadFile(request.checks, kMostBytesOfChecks);
  return text.ok() ? ParseOwnChecks(*text, request.checks) : text.status();
}

}  // namespace

int Doctor(const Command& self, const Arguments& arguments) {
  Options options(self, kDoctorHelp);
  DoctorRequest request;
  Declare(&options, &request);
  Arguments words = arguments;
  request.command = TakeCommand(&words);
  if (const auto status = options.Read(words)) return *status;
  const auto own = OwnChecksOf(request);
  if (!own.ok()) return Unreadable(self, own.status());
  if (const std::string unknown = UnknownId(request, *own); !unknown.empty())
    return UsageError(self, "there is no check '" + unknown + "'");
  const auto wait = ParseDuration(request.wait);
  if (!wait) return UsageError(self, "--wait takes a time like 30s, not '" + request.wait + "'");
  const Machine machine = MachineOf(request);
  if (!request.counters.empty()) {
    const std::string why = SaveCounters(machine, request.counters);
    if (!why.empty()) Complain(self.name, "{}", why);
    return why.empty() ? kDone : kProblem;
  }
  const rundir::Place& ranks = machine.place();
  doctor::Report report = ReportOf(machine, LookAround(request, machine, *own));
  if (IsWanted(request, kKnownBadVersions))
    report.checks.push_back({kKnownBadVersions, KnownBadVersions(machine, report)});
  Gathered gathered;
  if (ranks.world_size > 1) {
    const MeetingPlace place = MeetingPlaceOf(machine, request);
    const std::int64_t wait_ns = absl::ToInt64Nanoseconds(*wait);
    if (ranks.rank != 0) {
      std::string why;
      if (ReportToRank0(place, ranks, std::move(report), wait_ns, &why)) return kDone;
      Complain(self.name, "rank {} did not reach rank 0: {}", ranks.rank, why);
      return kProblem;
    }
    gathered = GatherRanks(place, ranks, std::move(report), request.active, wait_ns);
  } else {
    RankReport alone;
    alone.report = std::move(report);
    gathered.ranks.push_back(std::move(alone));
  }
  const doctor::JobReport concluded = Conclude(request, gathered, ranks.world_size);
  if (request.json)
    PrintJson(ToJson(concluded));
  else
    WriteOut(ToText(concluded, request.all || !request.only.empty()));
  return HasFailed(concluded) ? kProblem : kDone;
}

}  // namespace ncclwatch::analyzer
