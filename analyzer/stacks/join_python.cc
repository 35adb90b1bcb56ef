#include "analyzer/stacks/join_python.h"

#include <algorithm>

#include "analyzer/stacks/show/fold.h"

namespace ncclwatch::stacks {
namespace {

bool IsLoop(const Frame& frame) { return frame.function.starts_with("_PyEval_EvalFrameDefault"); }

Frame Converted(const python::Frame& from) {
  Frame frame;
  frame.kind = Frame::Kind::kPython;
  frame.function = from.function.empty() ? "?" : from.function;
  frame.file = from.file;
  frame.line = from.line;
  for (const python::Variable& one : from.numbers) frame.numbers.push_back({one.name, one.value});
  frame.group = from.group;
  return frame;
}

// Takes what one turn of the loop runs: up to the frame that it was entered with.
void TakeOne(const std::vector<python::Frame>& python, std::size_t* next, std::vector<Frame>* to) {
  while (*next < python.size()) {
    const python::Frame& frame = python[(*next)++];
    to->push_back(Converted(frame));
    if (frame.entry) return;
  }
}

}  // namespace

void JoinPython(const std::vector<python::Frame>& python, std::vector<Frame>* frames) {
  if (python.empty()) return;
  std::vector<Frame> joined;
  std::size_t next = 0;
  const bool loops = std::any_of(frames->begin(), frames->end(), IsLoop);
  for (Frame& frame : *frames) {
    if (loops && IsLoop(frame) && next < python.size()) {
      TakeOne(python, &next, &joined);
      continue;
    }
    // An interpreter without names: its innermost frame is the place.
    if (!loops && next == 0 && GroupOf(frame) == Group::kPython)
      while (next < python.size()) TakeOne(python, &next, &joined);
    joined.push_back(std::move(frame));
  }
  while (next < python.size()) TakeOne(python, &next, &joined);
  *frames = std::move(joined);
}

void JoinPython(const python::Stacks& python, std::vector<Thread>* threads) {
  for (const python::Thread& from : python.threads) {
    const auto to = std::find_if(threads->begin(), threads->end(),
                                 [&](const Thread& thread) { return thread.tid == from.tid && from.tid != 0; });
    if (to == threads->end()) continue;
    JoinPython(from.frames, &to->frames);
    to->cut |= from.cut;
    if (to->trouble.empty()) to->trouble = from.trouble;
  }
}

}  // namespace ncclwatch::stacks
