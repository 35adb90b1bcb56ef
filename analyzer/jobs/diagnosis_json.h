// diagnosis.json, read back.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "core/model/finding.h"

namespace ncclwatch::analyzer {

// What ToJson() has written. Fields that JSON does not keep, and keys that are missing, have their defaults. None: it
// is no diagnosis, or a value has another type or a name that this version does not know.
std::optional<diagnosis::Diagnosis> ReadDiagnosisJson(std::string_view text);

}  // namespace ncclwatch::analyzer
