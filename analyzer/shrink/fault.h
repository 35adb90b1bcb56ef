// What the model, and a diagnosis of its outcome, make of a job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/edit/job.h"
#include "watchdog/diagnosis/model/finding.h"

namespace ncclwatch::analyzer {

struct Fault {
  diagnosis::Kind kind{};
  diagnosis::Certainty certainty{};
  std::string op;             // of the culprits' call; where they made none, of the others'
  std::vector<int> culprits;  // ranks of the recording
  std::string text;           // the verdict for people, in the job's own numbers
};

// None: the job completes.
std::optional<Fault> FaultOf(const Job& job);

// The same kind, certainty and call, and it blames nobody whom the whole did not.
bool Shows(const std::optional<Fault>& part, const Fault& whole);

// Whether it follows from what is called and who is gone, which a program can do again.
bool CanBeShown(diagnosis::Kind kind);

}  // namespace ncclwatch::analyzer
