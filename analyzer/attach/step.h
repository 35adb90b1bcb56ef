// At which step of its training loop a rank is, as its variables have it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/stacks/base/stack.h"

namespace ncclwatch::analyzer::attach {

struct Step {
  std::optional<std::int64_t> number;
  std::string text;  // "epoch 3, batch_idx 17"
};

// Of the program's own loop if it has one, else of that of a package.
Step StepOf(const stacks::Thread& thread);

}  // namespace ncclwatch::analyzer::attach
