// What whoever restarts a diagnosed job should do first.
#pragma once

#include <optional>

#include "analyzer/restart/restart.h"
#include "core/model/finding.h"

namespace ncclwatch::analyzer {

// By the first finding; nullopt: there is none.
std::optional<Restart> RestartAfter(const diagnosis::Diagnosis& diagnosis);

}  // namespace ncclwatch::analyzer
