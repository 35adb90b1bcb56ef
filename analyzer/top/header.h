// What stands above the table: the job, its steps, what is wrong, who is last, and what is not shown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/console/terminal.h"
#include "analyzer/top/job.h"

namespace ncclwatch::analyzer::top {

struct Line {
  std::string text;  // nothing in it steers the terminal
  Colour colour = Colour::kNone;
};

// The most telling first. `clock`: the time of day, empty for none.
std::vector<Line> HeaderOf(const Job& job, const std::string& clock);

// In words, of a communicator of the job.
std::string NameOf(const Job& job, std::uint64_t communicator);
std::string CountText(double per_s);   // "812", "3.5"
std::string AmountText(double bytes);  // "1.2 GB": powers of 1000

}  // namespace ncclwatch::analyzer::top
