// Marks: the GPU itself writes into the black box, in stream order, that it has come to the work of a call (start
// marks) and that it is done with it (end marks).
#pragma once

#include <cstdint>

#include "shim/black_box/box.h"

namespace ncclwatch::shim::device {

// Gives the current context access to the marks of a communicator that has just become ready. Never fails loudly: a
// communicator without access is recorded without marks.
void Prepare(Box& box, std::uint32_t index);

enum class Outcome {
  kNotWanted,  // switched off, or the communicator cannot have marks
  kEnqueued,
  kCaptured,     // the stream is capturing: a mark would become a node of the graph
  kUnavailable,  // the driver refused, or the communicator has been aborted and its entry is another one's
};
// Enqueues the next end mark of the operation's communicator on its stream. *ticket is set with kEnqueued.
Outcome Enqueue(Box& box, const Operation& operation, std::uint64_t* ticket);
// Likewise the next start mark: before the launch.
Outcome EnqueueStart(Box& box, const Operation& operation, std::uint64_t* number);

}  // namespace ncclwatch::shim::device
