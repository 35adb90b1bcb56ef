// Moved: change_point.h lies in statistics.
#pragma once

#include "watchdog/diagnosis/statistics/change_point.h"
