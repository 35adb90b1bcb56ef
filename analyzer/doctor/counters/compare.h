// What has changed from one look at a machine to the next. Pure.
#pragma once

#include <cstdint>

#include "analyzer/doctor/counters/read.h"

namespace ncclwatch::doctor {

// Adds events to *look and takes over the figures. The first look (last_ns 0) tells of bad states alone, and of the
// last hour of the log.
void TakeLook(const Figures& figures, std::int64_t now_ns, reader::MachineLook* look);

}  // namespace ncclwatch::doctor
