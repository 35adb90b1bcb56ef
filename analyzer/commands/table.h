// The sub-commands of `ncclwatch`, each in a file of its own.
#pragma once

#include <span>
#include <string_view>

#include "analyzer/console/command.h"

namespace ncclwatch::analyzer {

std::span<const Command> Commands();
const Command* FindCommand(std::string_view name);

int Run(const Command& self, const Arguments& arguments);
int Demo(const Command& self, const Arguments& arguments);
int Diagnose(const Command& self, const Arguments& arguments);
int Top(const Command& self, const Arguments& arguments);
int Trace(const Command& self, const Arguments& arguments);
int Ls(const Command& self, const Arguments& arguments);
int Clean(const Command& self, const Arguments& arguments);
int Attach(const Command& self, const Arguments& arguments);
int Stacks(const Command& self, const Arguments& arguments);
int Dump(const Command& self, const Arguments& arguments);
int Stats(const Command& self, const Arguments& arguments);
int Bisect(const Command& self, const Arguments& arguments);
int BundleJob(const Command& self, const Arguments& arguments);
int CompareRuns(const Command& self, const Arguments& arguments);
int Correlate(const Command& self, const Arguments& arguments);
int Doctor(const Command& self, const Arguments& arguments);
int InvestigateJob(const Command& self, const Arguments& arguments);
int TriageLogs(const Command& self, const Arguments& arguments);
int Replay(const Command& self, const Arguments& arguments);
int Report(const Command& self, const Arguments& arguments);
int Metrics(const Command& self, const Arguments& arguments);
int Collect(const Command& self, const Arguments& arguments);
int Export(const Command& self, const Arguments& arguments);
int ImportTraces(const Command& self, const Arguments& arguments);
int Off(const Command& self, const Arguments& arguments);
int On(const Command& self, const Arguments& arguments);

}  // namespace ncclwatch::analyzer
