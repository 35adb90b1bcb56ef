// Models of recorded jobs.
#pragma once

#include <absl/status/statusor.h>

#include "analyzer/ideal/model.h"
#include "analyzer/recording/recording.h"

namespace ncclwatch::analyzer::ideal {

// Of the operations that another tool has recorded, or else of the calls, with computation between them. Not found:
// there is nothing to run.
absl::StatusOr<Model> MakeModel(const Recording& recording);

// The parts of it.
absl::StatusOr<Model> ModelOfOperations(const Recording& recording);
absl::StatusOr<Model> ModelOfCalls(const Recording& recording);
bool HasOperations(const Recording& recording);

}  // namespace ncclwatch::analyzer::ideal
