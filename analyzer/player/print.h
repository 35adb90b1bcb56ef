// The outcome of a replay on a real library, for people: lines like those of nccl-tests, beside what was recorded.
#pragma once

#include <nlohmann/json.hpp>

#include "analyzer/player/measured.h"
#include "analyzer/replay/program.h"

namespace ncclwatch::analyzer {

void PrintMeasured(const Measured& measured, const RecordedProgram& program);
nlohmann::ordered_json MeasuredJson(const Measured& measured, const RecordedProgram& program);

}  // namespace ncclwatch::analyzer
