// What a search has found, for people or as JSON (contract: `ncclwatch bisect`). Both return the exit status.
#pragma once

#include <vector>

#include "analyzer/bisect/border.h"
#include "analyzer/bisect/culprits.h"
#include "analyzer/bisect/question.h"
#include "analyzer/bisect/trial.h"

namespace ncclwatch::bisect {

int TellBorder(bool as_json, const Border& border, const std::vector<Observation>& all);
int TellCulprits(bool as_json, const Question& question, const Culprits& culprits, const std::vector<Observation>& all);

}  // namespace ncclwatch::bisect
