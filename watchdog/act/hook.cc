#include "watchdog/act/hook.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "watchdog/act/program.h"
#include "watchdog/act/thread.h"
#include "watchdog/settings/exchange_address.h"

namespace ncclwatch::act {
namespace {

constexpr int kTimedOut = 124, kTimedOutAndKilled = 128 + 9;  // statuses of timeout(1)
constexpr std::string_view kExchange = "NCCLWATCH_EXCHANGE=";

// That of the GNU coreutils and its like; busybox' older ones take other words.
std::string Timeout() {
  for (const char* path : {"/usr/bin/timeout", "/bin/timeout"}) {
    char* real = access(path, X_OK) == 0 ? realpath(path, nullptr) : nullptr;
    const bool known = real && !std::strstr(real, "busybox");
    free(real);
    if (known) return path;
  }
  return {};
}

// fmt, not printf: the application's locale may print a decimal comma.
std::string Seconds(double seconds) { return fmt::format("{:.3f}", seconds); }

// Empty: it ended well.
std::string Verdict(const Outcome& outcome, double limit_s) {
  if (outcome.error != 0) return fmt::format("could not be started: {}", std::strerror(outcome.error));
  const int status = WIFEXITED(outcome.status) ? WEXITSTATUS(outcome.status) : 128 + WTERMSIG(outcome.status);
  if (!outcome.in_time || status == kTimedOut || status == kTimedOutAndKilled)
    return fmt::format("was ended after {} s (NCCLWATCH_HOOK_TIMEOUT)", Seconds(limit_s));
  return status == 0 ? "" : fmt::format("ended with status {}", status);
}

void Run(const Hook& hook) {
  Program program;
  program.arguments = HookWords(hook.command, hook.limit_s);
  const bool limited = program.arguments.front() != "/bin/sh";
  program.environment = HookEnvironment(hook.environment);
  program.input = hook.input;
  // Where timeout(1) keeps the limit, this one only catches its own failure.
  program.grace_ms = static_cast<std::int64_t>(kHookGrace_s * 1000);
  program.deadline_ms = static_cast<std::int64_t>(hook.limit_s * 1000) + (limited ? 2 * program.grace_ms : 0);
  const std::string verdict = Verdict(RunProgram(program), hook.limit_s);
  if (!verdict.empty() && hook.complain) hook.complain("NCCLWATCH_HOOK " + verdict);
}

}  // namespace

std::vector<std::string> HookWords(const std::string& command, double limit_s) {
  std::vector<std::string> words;
  if (const std::string timeout = Timeout(); !timeout.empty())
    words = {timeout, "-k", Seconds(kHookGrace_s), Seconds(limit_s)};
  words.insert(words.end(), {"/bin/sh", "-c", command});
  return words;
}

std::vector<std::string> HookEnvironment(const std::vector<std::string>& environment) {
  std::vector<std::string> kept;
  for (const std::string& variable : environment) {
    const bool of_loader = variable.starts_with("LD_") || variable.starts_with("GLIBC_TUNABLES=");
    if (of_loader || variable.starts_with("NCCLWATCH_TOKEN")) continue;
    if (variable.starts_with(kExchange) && variable.find('@') != std::string::npos)
      kept.push_back(std::string(kExchange) + settings::WithoutSecret(variable.substr(kExchange.size())));
    else
      kept.push_back(variable);
  }
  return kept;
}

bool StartHook(Hook hook) {
  return StartThread("ncclwatch-hook", [hook = std::move(hook)] { Run(hook); });
}

}  // namespace ncclwatch::act
