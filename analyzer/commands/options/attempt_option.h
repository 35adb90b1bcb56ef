// --attempt, of every command that reads the directory of a job.
#pragma once

#include "analyzer/commands/options/options.h"
#include "analyzer/jobs/attempts.h"

namespace ncclwatch::analyzer {

void DeclareAttempt(Options* options, AttemptChoice* choice);

}  // namespace ncclwatch::analyzer
