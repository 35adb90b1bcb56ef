// In which call a process waits, and from which place of the program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/stacks/base/stack.h"
#include "analyzer/stacks/lines/lines.h"

namespace ncclwatch::analyzer::attach {

bool IsOfMpi(const std::string& call);

// A call in which ranks find one another.
bool IsJoining(const std::string& call);

// What a call waits for.
struct Wait {
  std::string in;
  bool to_one = false, of_device = false;
  int peer = -1;                        // job rank, if to_one and it is known
  std::uint64_t group = 0;              // address of torch's object; 0: not known
  std::size_t frame = 0;                // the outermost of the call
  const stacks::Frame* call = nullptr;  // that frame, if it is native
};
// Of the thread that the program runs in; else of one that works for it, as autograd's and gloo's do.
Wait WaitOf(const stacks::ProcessStacks& process);

// The thread that matters; null if it was not read.
const stacks::Thread* MainOf(const stacks::ProcessStacks& process);

bool IsOfProgram(const stacks::Frame& frame);  // native, and of no library of communication

// The native frame that made the call that a thread waits in, or its innermost one of the program. Null: none.
const stacks::Frame* CallerOf(const stacks::Thread& thread);

// The program's function that the CUDA library runs for a stream, as cudaLaunchHostFunc asks for it. Null: none.
const stacks::Frame* HostFunctionOf(const stacks::ProcessStacks& process);

// "step (hang.c:13)" where there is debug information.
std::string SiteText(const stacks::Frame& frame, stacks::SourceLines* lines);

// The innermost line of the program's Python: "train (train.py:24)". Empty: no Python.
std::string PythonSite(const stacks::Thread& thread);

// A call on the way to where a thread stands.
struct Spot {
  std::string function;  // with its file
  std::int64_t at = 0;   // line, or address in the file: larger is further on in the function
  bool operator==(const Spot&) const = default;
};
// Outermost first, the program's own; of Python if it has any.
std::vector<Spot> PathOf(const stacks::Thread& thread);

}  // namespace ncclwatch::analyzer::attach
