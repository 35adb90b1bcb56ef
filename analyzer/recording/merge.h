// The calls of all processes of a recording, merged by time: what `trace` and `export` read.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "analyzer/recording/recording.h"

namespace ncclwatch::analyzer {

struct MergedCall {
  const ProcessRecording& process;
  std::size_t number;  // of the process in the recording
  const Piece& piece;  // without its calls
  const reader::Call& call;
  const reader::Communicator* communicator;  // null: on none
  std::int64_t now_ns;                       // until then it was pending: CLOCK_MONOTONIC of its node
};

// Calls that follow one another, and what they point into.
struct MergedBatch {
  static constexpr std::size_t kCalls = 512;  // at most

  std::vector<MergedCall> calls;
  std::vector<std::shared_ptr<const void>> slices;
  void Clear() {
    calls.clear();
    slices.clear();
  }
};

struct MergeRequests {
  // Whether a segment of the process of this rank may have calls that are wanted.
  std::function<bool(const SegmentIndex&, int rank)> segment;
  // For a piece: which of its calls are.
  std::function<std::function<bool(const reader::Call&)>(const Piece&)> calls;
};

// Gives `take` the wanted calls by the time at which they were entered, until it returns false. It may swap the batch
// with another one, and read its calls later on another thread. A piece of each process is in memory, packed where
// there are many (packed_calls.h), and the next one too where that is not much.
void MergeCalls(const Recording& recording, const MergeRequests& requests, std::vector<reader::Failure>* failures,
                absl::FunctionRef<bool(MergedBatch*)> take);

// How many calls of which ranks are missing, on stderr.
void SayLost(const Recording& recording);

}  // namespace ncclwatch::analyzer
