// Rows of calls as columns in Arrow's layout, for the Python package, which hands them on without a copy:
//
//   rows columns\n
//   name format rows nulls buffers offset bytes offset bytes offset bytes\n
//   \n
//
// with a line for each column; formats and buffers are those of the Arrow C data interface, absent buffers 0 0. The
// line after that of a list (+L) is of its items. Offsets are of 64 bits: the texts of a large job have more than 2
// GiB. Then, from the next multiple of 64 bytes on, the buffers, each at a multiple of 64.
#pragma once

#include <string>
#include <vector>

#include "analyzer/trace/row.h"

namespace ncclwatch::analyzer {

std::string ToColumns(const std::vector<Row>& rows);

}  // namespace ncclwatch::analyzer
