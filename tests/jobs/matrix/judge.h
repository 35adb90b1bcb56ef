// A generated job given to the diagnosis, and its verdict held against the truth.
#pragma once

#include <string>

#include "core/diagnose.h"
#include "tests/jobs/simulator/generate.h"

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
diagnosis::Snapshot SnapshotOf(const Generated& made);  // of its boxes
diagnosis::Diagnosis Diagnose(const Generated& made);
// With `partly` some of the boxes are missing, or the instant is one at which not everybody has arrived.
Judged Compare(const Truth& truth, const diagnosis::Diagnosis& diagnosis, bool partly = false);
// What is wrong with the step that the finding names; empty if nothing is.
std::string WrongStep(const Generated& made, const diagnosis::Finding& finding);
const char* NameOf(Verdict verdict);

struct Tally {
  int count[kVerdicts] = {};
  int& of(Verdict verdict) { return count[static_cast<int>(verdict)]; }
  int of(Verdict verdict) const { return count[static_cast<int>(verdict)]; }
  int all() const;
  double right_percent() const;
  void Add(const Tally& other);
};
void PrintHead(const char* what);
void PrintRow(const std::string& name, const Tally& tally);
// The command that makes it again, and what was said.
void PrintMiss(const Generated& made, const Shape& shape, const Judged& judged);

}  // namespace ncclwatch::jobs
