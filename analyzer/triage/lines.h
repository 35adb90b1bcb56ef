// What a single log line is: how grave, a sign of progress, or what a process writes while it ends. Pure, thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/triage/scan.h"

namespace ncclwatch::analyzer {

std::string WithoutColors(std::string_view line);  // terminal sequences taken out
LogLevel LevelOf(std::string_view line);
TailLine::Kind KindOf(std::string_view line);

// Whether a program says of what it wrote before that it can live with it: "falling back to", "will try again".
bool SaysItGoesOn(std::string_view line);
// The same of the line behind an exception, where less says it: "fused Adam is not available, using the slow one".
bool LivesWithout(std::string_view line);

// The rank of the job of which a process says that it is it: "rank 6 of 8", "Initialized process group: rank=1
// world_size=8", "GLOBAL_RANK: 6, MEMBER: 7/8". -1: the line says none.
int OwnRankIn(std::string_view line);

}  // namespace ncclwatch::analyzer
