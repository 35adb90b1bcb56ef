// What steps tell, as findings: who holds them up, and that they have become longer.
#pragma once

#include "core/model/finding.h"
#include "core/slow/bubble.h"
#include "core/slow/chronic.h"
#include "core/slow/meanwhile.h"
#include "core/slow/regression.h"
#include "core/slow/straggler.h"
#include "core/steps/step_table.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {

Finding StragglerFinding(const View& view, const StepTable& table, const Straggler& found);
Finding StarvedFinding(const View& view, const StepTable& table, const StarvedJob& found);
Finding ChronicFinding(const View& view, const StepTable& table, const Chronic& found);
Finding BubbleFinding(const View& view, const StepTable& table, const Bubble& found);
Finding RegressionFinding(const View& view, const StepTable& table, const Regression& found);

}  // namespace ncclwatch::diagnosis
