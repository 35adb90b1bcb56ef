// Rows of calls as columns in Arrow's layout, for the Python package, which hands them on without a copy:
//
//   rows columns\n
//   name format nulls buffers offset bytes offset bytes offset bytes\n      for each column; formats and buffers as in
//   the
//                                                                          Arrow C data interface, absent ones 0 0
//   \n
//
// then, from the next multiple of 64 bytes on, the buffers, each at a multiple of 64.
#pragma once

#include <string>
#include <vector>

#include "analyzer/trace/row.h"

namespace ncclwatch::analyzer {

std::string ToColumns(const std::vector<Row>& rows);

}  // namespace ncclwatch::analyzer
