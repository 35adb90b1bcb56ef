#include "analyzer/doctor/own_checks.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <re2/re2.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <set>

#include "analyzer/console/units.h"
#include "analyzer/doctor/checks/words.h"
#include "analyzer/files/toml.h"

namespace ncclwatch::doctor {
namespace {

using analyzer::MonotonicNow;

absl::Status Wrong(const std::string& source, const std::string& what) {
  return absl::InvalidArgumentError(source + ": " + what);
}

// `^` and `$` are those of a line.
std::string Pattern(const std::string& output) { return "(?m)" + output; }

absl::StatusOr<OwnCheck> ParseOne(const toml::table& table, const std::string& source) {
  constexpr std::array<std::string_view, 10> kKeys = {"id",    "command", "output",   "advice", "status",
                                                      "least", "most",    "severity", "phases", "timeout"};
  for (const auto& [key, value] : table)
    if (std::find(kKeys.begin(), kKeys.end(), key.str()) == kKeys.end())
      return Wrong(source,
                   fmt::format("a check has no '{}'; it has {}", key.str(), Joined({kKeys.begin(), kKeys.end()})));
  OwnCheck check;
  check.id = table["id"].value_or("");
  check.command = table["command"].value_or("");
  check.output = table["output"].value_or("");
  check.advice = table["advice"].value_or("");
  check.status = table["status"].value_or(0);
  check.least = table["least"].value<double>();
  check.most = table["most"].value<double>();
  if (check.id.empty() || check.command.empty()) return Wrong(source, "a check needs an id and a command");
  if (const std::string severity = table["severity"].value_or("warn"); severity == "fail")
    check.severity = Status::kFail;
  else if (severity != "warn")
    return Wrong(source, check.id + ": severity is warn or fail, not " + severity);
  if (!check.output.empty() && !RE2(Pattern(check.output), RE2::Quiet).ok())
    return Wrong(source, check.id + ": output is no regular expression");
  if (const auto timeout = table["timeout"].value<std::string>()) {
    const auto limit = analyzer::ParseDuration(*timeout);
    if (!limit) return Wrong(source, check.id + ": timeout is a time like 10s, not " + *timeout);
    check.limit_ns = absl::ToInt64Nanoseconds(*limit);
  }
  if (const toml::array* const phases = table["phases"].as_array()) {
    check.phases = 0;
    for (const toml::node& one : *phases) {
      const auto phase = PhaseNamed(one.value_or(std::string()));
      if (!phase) return Wrong(source, check.id + ": phases are first-run, scale-up and long-run");
      check.phases |= *phase;
    }
  }
  return check;
}

struct RunOutcome {
  int status = 0;
  std::string output;  // both streams, the first 64 KiB
  bool in_time = true;
};

RunOutcome RunCommand(const std::string& command, std::int64_t limit_ns) {
  RunOutcome outcome;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {127, "", true};
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    dup2(ends[1], STDOUT_FILENO), dup2(ends[1], STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return {127, "", true};
  }
  setpgid(child, child);
  const std::int64_t until = MonotonicNow() + limit_ns;
  constexpr std::size_t kMost = 64 << 10;
  std::array<char, 4096> block;
  while (true) {
    const std::int64_t left = until - MonotonicNow();
    pollfd one{ends[0], POLLIN, 0};
    if (left <= 0 || poll(&one, 1, static_cast<int>(left / 1'000'000) + 1) <= 0) {
      outcome.in_time = false;
      break;
    }
    const ssize_t size = read(ends[0], block.data(), block.size());
    if (size <= 0) break;
    if (outcome.output.size() < kMost) outcome.output.append(block.data(), static_cast<std::size_t>(size));
  }
  close(ends[0]);
  kill(-child, SIGKILL);  // also what the shell has left in the background
  int status = 0;
  waitpid(child, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

std::optional<double> FirstNumber(const std::string& text) {
  static const RE2 number("([-+]?[0-9]+(?:\\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)");
  std::string word;
  return RE2::PartialMatch(text, number, &word) ? std::optional(std::strtod(word.c_str(), nullptr)) : std::nullopt;
}

}  // namespace

std::optional<unsigned> PhaseNamed(const std::string& name) {
  if (name == "first-run") return 1;
  if (name == "scale-up") return 2;
  if (name == "long-run") return 4;
  return std::nullopt;
}

absl::StatusOr<std::vector<OwnCheck>> ParseOwnChecks(const std::string& text, const std::string& source) {
  const auto table = analyzer::ParseToml(text, source);
  if (!table.ok()) return table.status();
  std::vector<OwnCheck> checks;
  std::set<std::string> ids;
  const toml::array* const all = (*table)["check"].as_array();
  if (!all) return Wrong(source, "no [[check]] in it");
  for (const toml::node& node : *all) {
    if (!node.is_table()) return Wrong(source, "a check is a table, [[check]]");
    auto check = ParseOne(*node.as_table(), source);
    if (!check.ok()) return check.status();
    if (!ids.insert(check->id).second) return Wrong(source, check->id + " is there twice");
    checks.push_back(*std::move(check));
  }
  return checks;
}

Result Run(const OwnCheck& check) {
  const RunOutcome outcome = RunCommand(check.command, check.limit_ns);
  const std::vector<std::string> lines = Split(outcome.output, "\n");
  const std::string seen = lines.empty() ? fmt::format("status {}", outcome.status) : lines.front().substr(0, 200);
  const auto bad = [&](std::string reason) { return Result{check.severity, seen, std::move(reason), check.advice}; };
  if (!outcome.in_time)
    return bad(fmt::format("`{}` does not end in {}", check.command,
                           analyzer::DurationText(absl::Nanoseconds(check.limit_ns))));
  if (outcome.status != check.status)
    return bad(fmt::format("`{}` ends with status {}, not {}", check.command, outcome.status, check.status));
  if (!check.output.empty() && !RE2::PartialMatch(outcome.output, RE2(Pattern(check.output), RE2::Quiet)))
    return bad(fmt::format("the output of `{}` has nothing like {}", check.command, check.output));
  if (check.least || check.most) {
    const auto number = FirstNumber(outcome.output);
    if (!number) return bad(fmt::format("`{}` prints no number", check.command));
    if (check.least && *number < *check.least) return bad(fmt::format("{} is below {}", *number, *check.least));
    if (check.most && *number > *check.most) return bad(fmt::format("{} is above {}", *number, *check.most));
  }
  return Pass(seen);
}

}  // namespace ncclwatch::doctor
