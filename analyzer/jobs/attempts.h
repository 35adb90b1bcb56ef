// The attempts of one job: a launcher that restarts its ranks makes one more each time (rundir/run_directory.h).
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/model/finding.h"

namespace ncclwatch::analyzer {

struct Attempt {
  std::uint32_t number = 0;
  std::vector<std::string> directories;  // several where the directories of several nodes were named
  // Known if the job has several attempts.
  bool alive = false;
  std::optional<diagnosis::Finding> root;  // none: no finding
};

// kFailed: the last one that failed. kLiving: the one that runs, else as kFailed. kNewest: without a diagnosis.
enum class Prefer { kFailed, kLiving, kNewest };
struct AttemptChoice {
  std::optional<std::uint32_t> number;  // what --attempt says; it comes before all else
  Prefer prefer = Prefer::kFailed;
};

struct Attempts {
  std::vector<Attempt> all;  // by number; none: no run directory was named
  std::size_t shown = 0;
  bool asked = false;  // the user has named the number

  bool several() const { return all.size() > 1; }
};

// Adds the attempts of the job whose first directory is `top`. False: no box and no segment lies there.
bool AddAttempts(const std::string& top, Attempts* attempts);
// Not found: there is no such number.
absl::Status Choose(const AttemptChoice& choice, Attempts* attempts);

// With the verdict of the attempt that is shown.
Attempts AsDiagnosed(const diagnosis::Diagnosis& shown, Attempts attempts);

// "attempt 0 of 2: dead_rank (certain); attempt 1: healthy; --attempt 1 shows it". Empty if there is only one, or if
// the user has chosen.
std::string WhichAttempt(const Attempts& attempts);
// The same on stderr.
void SayWhichAttempt(const Attempts& attempts);
// Empty if there is only one.
nlohmann::ordered_json ToJson(const Attempts& attempts);

}  // namespace ncclwatch::analyzer
