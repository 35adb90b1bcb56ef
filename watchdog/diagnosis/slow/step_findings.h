// What steps tell, as findings: who holds them up, and that they have become longer.
#pragma once

#include "watchdog/diagnosis/model/finding.h"
#include "watchdog/diagnosis/slow/bubble.h"
#include "watchdog/diagnosis/slow/chronic.h"
#include "watchdog/diagnosis/slow/regression.h"
#include "watchdog/diagnosis/slow/straggler.h"
#include "watchdog/diagnosis/steps/step_table.h"
#include "watchdog/diagnosis/view/view.h"

namespace ncclwatch::diagnosis {

Finding StragglerFinding(const View& view, const StepTable& table, const Straggler& found);
Finding ChronicFinding(const View& view, const StepTable& table, const Chronic& found);
Finding BubbleFinding(const View& view, const StepTable& table, const Bubble& found);
Finding RegressionFinding(const View& view, const StepTable& table, const Regression& found);

}  // namespace ncclwatch::diagnosis
