// Stacks as text for a person, and as the files that a verdict is completed from.
#pragma once

#include <string>
#include <vector>

#include "analyzer/stacks/base/stack.h"

namespace ncclwatch::stacks {

inline constexpr char kMagicLine[] = "ncclwatch.stacks/1";

// The file of one process: a head of lines that begin with a keyword (process, state, where), an empty line, then its
// threads. docs/commands.md describes it.
std::string FileText(const ProcessStacks& process);

// For a terminal; `full`: every frame, else folded.
std::string ProcessText(const ProcessStacks& process, bool full);

// All of them as one tree.
std::string MergedText(const std::vector<ProcessStacks>& processes);

// Schema ncclwatch.stacks/1.
std::string JsonText(const std::vector<ProcessStacks>& processes);

}  // namespace ncclwatch::stacks
