#include "analyzer/bisect/state.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "analyzer/files/input_file.h"
#include "analyzer/files/output_file.h"

namespace ncclwatch::bisect {
namespace {

using Json = nlohmann::ordered_json;

const char* Name(Outcome outcome) {
  return outcome == Outcome::kGood ? "good" : outcome == Outcome::kBad ? "bad" : "unknown";
}

Observation FromJson(const Json& json) {
  Observation one;
  one.question = json.value("question", "");
  const std::string outcome = json.value("outcome", "unknown");
  one.outcome = outcome == "good" ? Outcome::kGood : outcome == "bad" ? Outcome::kBad : Outcome::kUnknown;
  one.status = json.value("status", 0);
  one.timed_out = json.value("timed_out", false);
  one.seconds = json.value("seconds", 0.0);
  one.memory_peak = json.value("memory_peak", std::uint64_t{0});
  one.cause = json.value("cause", "");
  one.diagnosis = json.value("diagnosis", "");
  return one;
}

}  // namespace

Json ToJson(const Observation& one) {
  return {{"question", one.question},   {"outcome", Name(one.outcome)}, {"status", one.status},
          {"timed_out", one.timed_out}, {"seconds", one.seconds},       {"memory_peak", one.memory_peak},
          {"cause", one.cause},         {"diagnosis", one.diagnosis}};
}

absl::Status State::Open(const std::string& path, const std::string& question) {
  path_ = path;
  if (path.empty()) return absl::OkStatus();
  analyzer::InputFile file(path);
  if (!file.status().ok() && !absl::IsNotFound(file.status())) return file.status();
  std::string line;
  if (file && std::getline(file, line)) {
    const Json head = Json::parse(line, nullptr, false);
    if (!head.is_object() || !head.contains("bisect") || head["bisect"] != question)
      return absl::FailedPreconditionError(path + " is the state of another search; name another file, or remove it");
    while (std::getline(file, line)) {
      const Json one = Json::parse(line, nullptr, false);
      if (!one.is_object()) break;  // the last line may be cut off
      try {
        known_.push_back(FromJson(one));
      } catch (const Json::exception&) {
        return absl::DataLossError(path + " is damaged; remove it to begin anew");
      }
    }
    return absl::OkStatus();
  }
  const Json head{{"bisect", question}};
  return analyzer::WriteFile(path, head.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

const Observation* State::Known(const std::string& question) {
  if (next_ >= known_.size() || known_[next_].question != question) return nullptr;
  all_.push_back(known_[next_++]);
  return &all_.back();
}

void State::Add(const Observation& observation) {
  all_.push_back(observation);
  if (path_.empty()) return;
  const int fd = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  const std::string line = ToJson(observation).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size())) fsync(fd);
  close(fd);
}

}  // namespace ncclwatch::bisect
