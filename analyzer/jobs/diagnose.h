// Boxes to a diagnosis: of a dead job from its boxes alone, of a live one with what can be seen of its processes now.
#pragma once

#include <vector>

#include "watchdog/diagnosis/model/finding.h"
#include "watchdog/diagnosis/slow/find.h"
#include "watchdog/reader/box.h"

namespace ncclwatch::analyzer {

// With what slows the job where nothing stops it. Takes the boxes: those of a thousand
// ranks are copied in longer than they are judged in.
diagnosis::Diagnosis Diagnose(reader::RunImage run, const diagnosis::SlowContext& context = {});

// As the boxes tell it, with observations of our own where no leader lived to make them.
diagnosis::Diagnosis DiagnoseWith(reader::RunImage run, const std::vector<reader::Observation>& own);

}  // namespace ncclwatch::analyzer
