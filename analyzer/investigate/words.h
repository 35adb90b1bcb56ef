// Words that the parts of an incident share.
#pragma once

#include <absl/time/time.h>

#include <string>

#include "analyzer/investigate/incident.h"

namespace ncclwatch::investigate {

bool IsOfNumbers(diagnosis::Kind kind);
std::string At(std::int64_t realtime_ns);
std::string At(absl::Time time);
std::string Place(const analyzer::TriageFinding& reported);   // "rank_3.log:17"
std::string Quoted(const analyzer::TriageFinding& reported);  // and the line
std::string WhoseText(const analyzer::TriageFinding& reported);
bool IsOfCulprit(const analyzer::TriageFinding& reported, const diagnosis::Finding& finding);

}  // namespace ncclwatch::investigate
