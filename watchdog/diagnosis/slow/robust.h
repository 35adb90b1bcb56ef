// Moved: robust.h lies in statistics.
#pragma once

#include "watchdog/diagnosis/statistics/robust.h"
