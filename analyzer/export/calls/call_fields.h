// What is written of each call beside what a format has a place for (import/base/call_fields.h).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "analyzer/export/calls/exporter.h"
#include "analyzer/import/base/call_fields.h"

namespace ncclwatch::analyzer::exporting {

struct FieldValue {
  import::Field field;
  std::variant<std::int64_t, std::string> value;
};

// Without those of the process: host, pid and rank.
std::vector<FieldValue> FieldsOf(const MergedCall& merged, const Facts& facts, Sites* sites);

}  // namespace ncclwatch::analyzer::exporting
