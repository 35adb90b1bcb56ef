// A diagnosis as text.
#pragma once

#include <string>

#include "watchdog/diagnosis/model/finding.h"

namespace ncclwatch::diagnosis {

std::string ToJson(const Diagnosis& diagnosis);  // ncclwatch.diagnosis/1, indented, ends with a newline
std::string ToJsonLine(const Finding& finding);  // as in its `findings`, in one line without its end
std::string ToText(const Diagnosis& diagnosis);  // for a person and a terminal of 100 columns, without colour

}  // namespace ncclwatch::diagnosis
