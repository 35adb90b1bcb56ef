#include "analyzer/compare/trials.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analyzer/console/units.h"

namespace ncclwatch::compare {
namespace {

struct Ran {
  int status = 0;
  double seconds = 0;
  std::string output;
};

std::string Replaced(std::string word, const std::string& by) {
  for (std::size_t at = word.find("{}"); at != std::string::npos; at = word.find("{}", at + by.size()))
    word.replace(at, 2, by);
  return word;
}

Ran RunOnce(const std::vector<std::string>& words, const char* side) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {127, 0, ""};
  const std::int64_t start = analyzer::MonotonicNow();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(ends[1], STDOUT_FILENO);
    setenv("NCCLWATCH_SIDE", side, 1);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));  // execvp changes nothing
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(ends[1]);
  Ran ran;
  std::array<char, 65536> block;
  constexpr std::size_t kMostOutput = 64u << 20;
  for (ssize_t size; child > 0 && (size = read(ends[0], block.data(), block.size())) > 0;)
    if (ran.output.size() < kMostOutput) ran.output.append(block.data(), static_cast<std::size_t>(size));
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0) return {127, 0, ""};
  ran.seconds = static_cast<double>(analyzer::MonotonicNow() - start) / 1e9;
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

// A trial each: of numbers that a run prints several times, in their order.
void AddRan(const Ran& ran, Side* side) {
  AddTrial("run_time", "s", Better::kLower, {ran.seconds}, side);
  std::map<std::string, Samples> numbers;
  std::istringstream lines(ran.output);
  for (std::string line; std::getline(lines, line);) {
    const auto one = nlohmann::json::parse(line, nullptr, false);
    if (!one.is_object()) continue;
    for (const auto& [name, value] : one.items())
      if (value.is_number() && std::isfinite(value.get<double>())) numbers[name].push_back(value.get<double>());
  }
  for (auto& [name, samples] : numbers) AddTrial(name, "", BetterOf(name), std::move(samples), side);
}

}  // namespace

absl::StatusOr<std::pair<Side, Side>> RunTrials(const std::string& before, const std::string& after, int trials,
                                                const std::vector<std::string>& command) {
  std::pair<Side, Side> sides;
  sides.first.name = before, sides.second.name = after;
  for (int i = 0; i < 2 * trials; ++i) {
    const bool is_before = i % 4 == 0 || i % 4 == 3;
    Side& side = is_before ? sides.first : sides.second;
    std::vector<std::string> words;
    for (const std::string& word : command) words.push_back(Replaced(word, side.name));
    const Ran ran = RunOnce(words, is_before ? "before" : "after");
    if (ran.status != 0) return absl::AbortedError(fmt::format("`{}` ends with status {}", words.front(), ran.status));
    side.paths.push_back(side.name);
    AddRan(ran, &side);
  }
  return sides;
}

int RunProblem(const std::string& command, const std::string& path, const char* side) {
  const bool has_place = command.find("{}") != std::string::npos;
  const Ran ran = RunOnce({"/bin/sh", "-c", has_place ? Replaced(command, "\"$0\"") : command + " \"$0\"", path}, side);
  return ran.status;
}

}  // namespace ncclwatch::compare
