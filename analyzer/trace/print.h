// Rows as aligned text.
#pragma once

#include <string>
#include <vector>

#include "analyzer/trace/row.h"
#include "core/model/text.h"

namespace ncclwatch::analyzer {

// Without `wide`, what says nothing is left out: the thread where every rank has one, the stream likewise, the group
// and the result where there is nothing but success, the call site.
std::string ToTable(const std::vector<Row>& rows, bool wide);

// For rows that come one by one: fixed widths.
std::string FollowHeading();
// names: of the rows so far.
std::string FollowLine(const Row& row, diagnosis::CommunicatorNames* names);

}  // namespace ncclwatch::analyzer
