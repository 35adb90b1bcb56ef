// device_stall: everybody has launched a call, and the GPU of somebody has not come to it.
#pragma once

#include <optional>

#include "watchdog/diagnosis/model/finding.h"
#include "watchdog/diagnosis/waits/kernels.h"

namespace ncclwatch::diagnosis {

// None where no GPU is known not to have begun, or what holds it up may be NCCL's own.
std::optional<Finding> ExplainDeviceStall(const View& view, const Stuck& stuck, Certainty by_time);

}  // namespace ncclwatch::diagnosis
