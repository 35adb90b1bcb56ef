// Checks that users add: a command, and what it has to say.
//
//   [[check]]
//   id = "scratch"
//   command = "df --output=avail -BG /scratch | tail -1"
//   least = 100              # the first number of the output; also: most
//   output = "regular expression"
//   status = 0               # of the command; 0 where nothing else is said
//   severity = "warn"        # or "fail"
//   advice = "clean up /scratch"
//   phases = ["scale-up", "long-run"]
//   timeout = "10s"
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/doctor/checks/result.h"

namespace ncclwatch::doctor {

struct OwnCheck {
  std::string id, command, output, advice;
  int status = 0;
  std::optional<double> least, most;
  Status severity = Status::kWarn;
  unsigned phases = 7;
  std::int64_t limit_ns = 10'000'000'000;
};

std::optional<unsigned> PhaseNamed(const std::string& name);  // "first-run", "scale-up", "long-run"
absl::StatusOr<std::vector<OwnCheck>> ParseOwnChecks(const std::string& text, const std::string& source);
Result Run(const OwnCheck& check);  // by /bin/sh; its descendants are ended at the limit

}  // namespace ncclwatch::doctor
