// A diagnosis on its way from the hub to the other nodes, which write and quote it as their own. Pure; nothing here
// trusts a byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/finding.h"
#include "core/nodes/bytes.h"

namespace ncclwatch::nodes {

void WriteDiagnosis(const diagnosis::Diagnosis& diagnosis, Writer* to);
bool ReadDiagnosis(Reader* from, diagnosis::Diagnosis* diagnosis);

// What slows the job, from the hub to the others.
std::string WriteFindings(const std::vector<diagnosis::Finding>& findings);
std::optional<std::vector<diagnosis::Finding>> ReadFindings(std::string_view body);

}  // namespace ncclwatch::nodes
