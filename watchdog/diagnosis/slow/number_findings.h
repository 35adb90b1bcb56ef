// Moved: number_findings.h lies in numbers.
#pragma once

#include "watchdog/diagnosis/numbers/number_findings.h"
