// After the job: its diagnosis, from a leader if one made it, else from the boxes and from what was seen from outside.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/run/deaths.h"
#include "watchdog/settings/settings.h"

namespace ncclwatch::analyzer {

struct Epilogue {
  bool watched = false;  // some process left a black box
  bool fault = false;
  bool slow = false;         // no fault, but something slowed it
  bool ended_by_us = false;  // a leader has ended the job (NCCLWATCH_ON_FAULT=abort)
  std::string json;          // the diagnosis, also of a healthy job
  std::string clean;         // one line about a job in which nothing was found
};

// Says the diagnosis on stderr, once: where a leader has said it, only where it lies. `status` is the job's own. What a
// leader did not live to do is done: diagnosis.json, NCCLWATCH_OUT, NCCLWATCH_HOOK.
Epilogue Conclude(Deaths* deaths, int status, const settings::Settings& settings);

}  // namespace ncclwatch::analyzer
