// `ncclwatch replay --shrink`: the smallest part of a recording that still shows its fault, as a program.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "analyzer/shrink/fault.h"

namespace ncclwatch::analyzer {

struct Shrunk {
  Job job;
  Fault fault;
  std::size_t ranks_before = 0, communicators_before = 0, calls_before = 0;
  int tried = 0;  // smaller jobs that were run on the model

  std::size_t calls() const;
  std::size_t communicators() const;
};

// `verdict`: that of the recording. Failed precondition: there is no fault, or none that a program can show, or the
// model comes to another verdict.
absl::StatusOr<Shrunk> Shrink(const Recording& recording, const diagnosis::Diagnosis& verdict);

// Files of a program that shows the fault without ncclwatch: repro.cc or repro.c, Makefile, README.md. The directory is
// made. Returns the name of the source.
absl::StatusOr<std::string> WriteProgram(const Shrunk& shrunk, const std::string& directory);

}  // namespace ncclwatch::analyzer
