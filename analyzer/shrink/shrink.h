// `ncclwatch replay --shrink`: the smallest part of a recording that still shows its fault, as a program.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/edit/job.h"
#include "analyzer/replay/stopped.h"
#include "core/model/finding.h"

namespace ncclwatch::analyzer {

// What the model, and a diagnosis of its outcome, make of a program with the calls of a job.
struct Fault {
  diagnosis::Kind kind{};
  diagnosis::Certainty certainty{};
  std::string op;                    // of the culprits' call; where they made none, of the others'
  std::vector<int> culprits;         // ranks of the recording
  std::string text;                  // the verdict for people, in the job's own numbers
  std::vector<StoppedCall> stopped;  // where the program stands still, in the job's own ranks
  std::vector<int> finished;         // ranks of the job that have made their calls, and have not left
};

// None: the job completes.
std::optional<Fault> FaultOf(const Job& job);

// The same kind, certainty and call, and it blames nobody whom the whole did not.
bool Shows(const std::optional<Fault>& part, const Fault& whole);

// Whether it follows from what is called and who is gone, which a program can do again.
bool CanBeShown(diagnosis::Kind kind);

struct Shrunk {
  Job job;
  Fault fault;
  std::size_t ranks_before = 0, communicators_before = 0, calls_before = 0;
  int tried = 0;             // smaller jobs that were run on the model
  bool ended_early = false;  // more could perhaps go
  // Ranks that have made their calls and have to be there all the same: what the verdict would be without that.
  std::map<int, std::string> stays;

  std::size_t calls() const;
  std::size_t communicators() const;
};

// `verdict`: that of the recording. `goes_on` is asked before each try: false ends the search with what is left by
// then. Failed precondition: there is no fault, or none that a program can show, or the model comes to another verdict.
absl::StatusOr<Shrunk> Shrink(const Recording& recording, const diagnosis::Diagnosis& verdict,
                              const std::function<bool()>& goes_on);

// Files of a program that shows the fault without ncclwatch: repro.cc or repro.c, Makefile, README.md. The directory is
// made. Returns the name of the source.
absl::StatusOr<std::string> WriteProgram(const Shrunk& shrunk, const std::string& directory);

}  // namespace ncclwatch::analyzer
