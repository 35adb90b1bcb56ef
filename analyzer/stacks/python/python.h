// Stacks of the Python code of another process (CPython 3.9 to 3.15), by reading its memory alone: nothing is run,
// stopped or changed in it, so that it can be neither crashed nor held up. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/base/modules.h"

namespace ncclwatch::stacks::python {

struct Variable {
  std::string name;
  std::int64_t value = 0;
  bool operator==(const Variable&) const = default;
};

struct Frame {
  std::string function;  // qualified from 3.11 on ("Trainer.step", "main.<locals>.<lambda>"); empty: not readable
  std::string file;
  int line = 0;  // 0: it has none, or it could not be read
  // The interpreter's loop in C (_PyEval_EvalFrameDefault) was entered with this frame: one native frame stands for
  // this one and all further inward up to the next that has it set.
  bool entry = false;
  // If variables are wanted: its local variables that are whole numbers, and the object of its `group`.
  std::vector<Variable> numbers;
  std::uint64_t group = 0;

  bool operator==(const Frame&) const = default;
};

enum class Gil : std::uint8_t { kUnknown, kHeld, kNotHeld, kNone };  // kNone: a build that runs without

struct Thread {
  // As our /proc has it; 0 unknown. Up to 3.11 what runs in a sub-interpreter counts as the thread's that made it.
  int tid = 0;
  std::int64_t interpreter = 0;  // 0 is the main one; a thread in two of them comes twice, innermost first
  Gil gil = Gil::kUnknown;
  // Two readings in a row were the same, with the names read in between. If not, the thread runs Python code, and these
  // frames are of one or several moments.
  bool exact = false;
  bool cut = false;           // the outermost frames are left out, there are too many
  std::string trouble;        // one line why frames are missing; empty if none are
  std::vector<Frame> frames;  // innermost first; none while it runs no Python code
};

struct Stacks {
  bool present = false;  // there is a Python in the process
  std::string version;   // "3.11.2", or "3.9" where the process does not tell more; empty if it is not known
  std::string trouble;   // one line why threads are missing; empty if none are
  std::vector<Thread> threads;
};

enum class Want : std::uint8_t { kLines, kVariables };

// Reads past any cache that the caller has. `modules` are of the same process.
Stacks Read(int pid, Modules* modules, Want want = Want::kLines);

}  // namespace ncclwatch::stacks::python
