// A generated job given to the diagnosis, and its verdict held against the truth.
#pragma once

#include <string>

#include "tests/jobs/generate.h"
#include "watchdog/diagnosis/diagnose.h"

namespace ncclwatch::jobs {

enum class Verdict {
  kRight,
  kSilent,  // nothing found, and there is something
  kWrong,
  kOverCertain,  // right, and called certain where that cannot be known
  kWrongCertain,
};
inline constexpr int kVerdicts = 5;

struct Judged {
  Verdict verdict = Verdict::kRight;
  std::string said;  // "dead_rank [3] likely", "nothing"
};

// Reads the boxes where they are made, without files.
diagnosis::Diagnosis Diagnose(const Generated& made);
// Some ranks' boxes are missing: what can be known is less, what is certain must be as true as ever.
Judged Compare(const Truth& truth, const diagnosis::Diagnosis& diagnosis);

}  // namespace ncclwatch::jobs
