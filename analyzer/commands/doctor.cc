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

struct DoctorWish {
  std::string phase, checks, checkpoint, root, counters, meet, wait = "15s", precision = "bf16", optimizer = "adam",
                                                               activations;
  std::vector<std::string> only, command;
  double parameters = 0, shards = 1;
  bool active = false, all = false, json = false;
};

void Declare(Options* options, DoctorWish* wish) {
  options->add_flag("--active", wish->active,
                    "measure too: a core, memory, a file, a worker process, the network between hosts");
  options->add_option("--phase", wish->phase, "first-run, scale-up or long-run: what matters before it")
      ->type_name("PHASE")
      ->check(CLI::IsMember({"first-run", "scale-up", "long-run"}));
  options->add_option("--checks", wish->checks, "checks of your own, TOML: a command and what it has to say")
      ->type_name("FILE");
  options->add_option("--only", wish->only, "these checks alone")->type_name("ID,...")->delimiter(',');
  options->add_option("--checkpoint", wish->checkpoint, "the folder of checkpoints (CHECKPOINT_DIR)")->type_name("DIR");
  options->add_option("--parameters", wish->parameters, "of the model, for the memory budget: 7e9")->type_name("N");
  options
      ->add_option("--precision", wish->precision,
                   "of parameters and gradients: fp32, bf16, fp16 or fp8 (default: bf16)")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "fp8"}));
  options->add_option("--optimizer", wish->optimizer, "adam keeps 12 bytes for a parameter, sgd 4, none 0 (adam)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"adam", "sgd", "none"}));
  options->add_option("--shards", wish->shards, "ranks that share parameters, gradients and optimizer (1)")
      ->type_name("N");
  options->add_option("--activations", wish->activations, "bytes of a rank: 20G")->type_name("SIZE");
  options->add_option("--meet", wish->meet, "where rank 0 listens, if the launcher does not tell it")
      ->type_name("HOST:PORT");
  options->add_option("--wait", wish->wait, "for ranks to come (15s)")->type_name("TIME");
  options->add_option("--root", wish->root, "look at the files below this folder instead of /")->type_name("DIR");
  options
      ->add_option("--counters", wish->counters,
                   "check nothing: add what this machine has counted of errors since the last time to FILE")
      ->type_name("FILE");
  options->add_flag("--all", wish->all, "list what passed or was skipped too");
  options->add_flag("--json", wish->json, "print JSON");
}

MemoryBudget BudgetOf(const DoctorWish& wish) {
  MemoryBudget budget;
  budget.parameters = wish.parameters;
  budget.bytes_of_parameter = wish.precision == "fp32" ? 4 : wish.precision == "fp8" ? 1 : 2;
  budget.bytes_of_optimizer = wish.optimizer == "adam"  ? (wish.precision == "fp32" ? 8 : 12)
                              : wish.optimizer == "sgd" ? 4
                                                        : 0;
  budget.shards = std::max(1.0, wish.shards);
  budget.activations = ParseBytes(wish.activations).value_or(0);
  return budget;
}

Machine MachineOf(const DoctorWish& wish) {
  Machine machine(wish.root, Machine::OwnEnvironment());
  machine.budget = BudgetOf(wish);
  machine.checkpoint = wish.checkpoint.empty() ? machine.Variable("CHECKPOINT_DIR").value_or("") : wish.checkpoint;
  machine.command = wish.command;
  return machine;
}

// Those of several ranks are made by rank 0.
constexpr const char* kAcross[] = {"ranks-came",   "ranks-proven",  "host-map", "reachability",  "clock-skew",
                                   "version-skew", "variable-skew", "latency",  "pair-bandwidth"};

bool IsWanted(const DoctorWish& wish, std::string_view id) {
  return wish.only.empty() || std::find(wish.only.begin(), wish.only.end(), id) != wish.only.end();
}

std::string UnknownId(const DoctorWish& wish, const std::vector<OwnCheck>& own) {
  std::set<std::string, std::less<>> known(std::begin(kAcross), std::end(kAcross));
  for (const Check& check : ChecksOfOneRank()) known.emplace(check.id);
  for (const OwnCheck& check : own) known.insert(check.id);
  for (const std::string& id : wish.only)
    if (!known.contains(id)) return id;
  return "";
}

std::vector<Finding> LookAround(const DoctorWish& wish, const Machine& machine, const std::vector<OwnCheck>& own) {
  const unsigned phase = PhaseNamed(wish.phase).value_or(kAnyPhase);
  std::vector<Finding> findings;
  for (const Check& check : ChecksOfOneRank()) {
    const bool manual = check.id.starts_with("manual-"), named = !wish.only.empty() && IsWanted(wish, check.id);
    if (!IsWanted(wish, check.id)) continue;
    if (!named && ((manual && wish.phase.empty()) || (check.phases & phase) == 0)) continue;
    const bool asked = !check.active || wish.active || named;
    findings.push_back({std::string(check.id), asked ? check.look(machine) : Skip("measured with --active"), {}});
  }
  for (const OwnCheck& check : own)
    if (IsWanted(wish, check.id) && (check.phases & phase) != 0) findings.push_back({check.id, Run(check), {}});
  return findings;
}

JobReport Conclude(const DoctorWish& wish, const Gathered& gathered, int world_size) {
  JobReport report;
  report.ranks = static_cast<int>(gathered.ranks.size());
  std::set<std::string> hosts;
  for (const RankReport& one : gathered.ranks) hosts.insert(one.host);
  report.hosts = static_cast<int>(hosts.size());
  report.checks = Merge(gathered);
  report.differences = DifferencesOf(gathered);
  for (Finding& one : CompareRanks(gathered, report.differences, world_size, wish.active))
    if (IsWanted(wish, one.id)) report.checks.push_back(std::move(one));
  return report;
}

MeetingPlace MeetingPlaceOf(const Machine& machine, const DoctorWish& wish) {
  const settings::Settings settings = settings::OfThisProcess();  // the check of NCCLWATCH_* reports complaints
  const auto lookup = [&](std::string_view name) -> std::optional<std::string_view> {
    const auto found = machine.environment().find(std::string(name));
    return found == machine.environment().end() ? std::nullopt : std::optional<std::string_view>(found->second);
  };
  return PlaceOf(lookup, settings, wish.meet);
}

constexpr std::uint64_t kMostBytesOfChecks = 16 << 20;

absl::StatusOr<std::vector<OwnCheck>> OwnChecksOf(const DoctorWish& wish) {
  if (wish.checks.empty()) return std::vector<OwnCheck>();
  const auto text = ReadFile(wish.checks, kMostBytesOfChecks);
  return text.ok() ? ParseOwnChecks(*text, wish.checks) : text.status();
}

}  // namespace

int Doctor(const Command& self, const Arguments& arguments) {
  Options options(self, kDoctorHelp);
  DoctorWish wish;
  Declare(&options, &wish);
  Arguments words = arguments;
  wish.command = TakeCommand(&words);
  if (const auto status = options.Read(words)) return *status;
  const auto own = OwnChecksOf(wish);
  if (!own.ok()) return Unreadable(self, own.status());
  if (const std::string unknown = UnknownId(wish, *own); !unknown.empty())
    return UsageError(self, "there is no check '" + unknown + "'");
  const auto wait = ParseDuration(wish.wait);
  if (!wait) return UsageError(self, "--wait takes a time like 30s, not '" + wish.wait + "'");
  const Machine machine = MachineOf(wish);
  if (!wish.counters.empty()) {
    const std::string why = SaveCounters(machine, wish.counters);
    if (!why.empty()) Complain(self.name, "{}", why);
    return why.empty() ? kDone : kProblem;
  }
  const rundir::Place& ranks = machine.place();
  doctor::Report report = ReportOf(machine, LookAround(wish, machine, *own));
  Gathered gathered;
  if (ranks.world_size > 1) {
    const MeetingPlace place = MeetingPlaceOf(machine, wish);
    const std::int64_t wait_ns = absl::ToInt64Nanoseconds(*wait);
    if (ranks.rank != 0) {
      std::string why;
      if (ReportToRank0(place, ranks, std::move(report), wait_ns, &why)) return kDone;
      Complain(self.name, "rank {} did not reach rank 0: {}", ranks.rank, why);
      return kProblem;
    }
    gathered = GatherRanks(place, ranks, std::move(report), wish.active, wait_ns);
  } else {
    RankReport alone;
    alone.report = std::move(report);
    gathered.ranks.push_back(std::move(alone));
  }
  const JobReport concluded = Conclude(wish, gathered, ranks.world_size);
  if (wish.json)
    PrintJson(ToJson(concluded));
  else
    WriteOut(ToText(concluded, wish.all || !wish.only.empty()));
  return HasFailed(concluded) ? kProblem : kDone;
}

}  // namespace ncclwatch::analyzer
