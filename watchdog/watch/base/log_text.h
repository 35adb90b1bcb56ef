// How ncclwatch.log names what a leader sees.
#pragma once

#include <string>

#include "core/diagnose.h"
#include "ncclwatch/format/black_box.h"
#include "watchdog/evidence/exit.h"

namespace ncclwatch::watch {

std::string Headline(const diagnosis::Finding& finding);    // "order_mismatch (certain): rank 2"
std::string OutcomeOf(const diagnosis::Diagnosis& judged);  // the first finding's headline, or "nothing is wrong"
std::string StateText(format::Observed state);              // "is stopped by a signal"
std::string EndText(const evidence::ExitWord& exit);        // "killed by signal 9"

}  // namespace ncclwatch::watch
