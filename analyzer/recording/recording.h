// All that is known of the calls of a job: segments, and the black boxes beside them, process by process.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/segments/segment_file.h"
#include "core/reader/box.h"

namespace ncclwatch::analyzer {

// For commands that read whole recordings: pieces come one after another, each as large as the one before, and its
// memory need not go back to the system in between.
void KeepFreedMemory();

std::string LostText(const std::vector<SlotRange>& lost);  // "seq 70-95, 300", the first few

// Calls of a process in one piece of its recording, with its identity and communicators as they were at the end.
using Piece = reader::BoxImage;

class ProcessRecording {
 public:
  struct Segment {
    std::shared_ptr<const SegmentFile> file;
    const SegmentFile::Place* place;
  };

  // Identity, communicators and call sites as of the end; no calls.
  const reader::BoxImage& process() const { return process_; }
  // Job rank; of the world's communicator where no launcher named one; -1.
  int rank() const;
  // All that it has had, each once, in no order.
  std::vector<IndexedCommunicator> communicators() const;
  std::int64_t first_entered_ns() const;  // of its ring: CLOCK_MONOTONIC; 0: it is empty
  const std::vector<Segment>& segments() const { return segments_; }
  // Slots that no piece has: they were overwritten before anybody read them, or could not be written.
  const std::vector<SlotRange>& lost() const { return lost_; }
  std::uint64_t lost_calls() const;
  std::uint64_t end_slot() const;  // after its last call
  bool has_operations() const;
  // All of them, from all its pieces. A segment that cannot be read is left out, and `failures` says so.
  reader::Operations OperationsOf(std::vector<reader::Failure>* failures) const;

 private:
  friend class Recording;
  friend class PieceReader;
  void Conclude();

  reader::BoxImage process_;
  std::vector<Segment> segments_;         // by their slots
  std::vector<reader::Call> ring_;        // of its black box
  std::vector<reader::CallParts> parts_;  // of those
  bool has_box_ = false;
  std::vector<SlotRange> lost_;
};

// The pieces of one process, in order of slots.
class PieceReader {
 public:
  explicit PieceReader(const ProcessRecording& process);
  ~PieceReader();
  // Which segments to leave out, by their index; none by default.
  std::function<bool(const SegmentIndex&)> wants;
  // False: there is no more. A segment that cannot be read is left out, and `failures` says so.
  bool Next(Piece* piece, std::vector<reader::Failure>* failures);

  // Or call by call, never all of them in memory. False: there is no more piece.
  bool Begin(std::vector<reader::Failure>* failures);
  const Piece& piece() const;  // that has begun, without its calls
  // Until the next one. Null: the piece has no more.
  const reader::Call* NextCall(std::vector<reader::Failure>* failures);
  const std::vector<reader::CallParts>& parts() const;  // of the piece, once it has no more calls

 private:
  bool Open(std::vector<reader::Failure>* failures);
  bool Finish(std::vector<reader::Failure>* failures);
  void Prepare(Piece* piece) const;
  const ProcessRecording& process_;
  std::size_t segment_ = 0;              // behind the one that is open
  std::unique_ptr<SegmentCalls> calls_;  // null: those of the ring
  std::size_t in_ring_ = 0;
  std::uint64_t next_slot_ = 0;
  bool ring_done_ = false;
};

class Recording {
 public:
  // paths: as Locate() gives them. Damage is in run().failures.
  static Recording Open(const std::vector<std::string>& paths);
  // Of boxes with all their calls.
  static Recording Of(std::vector<reader::BoxImage> boxes);

  const std::vector<ProcessRecording>& processes() const { return processes_; }
  // Of its boxes, without calls.
  const reader::RunImage& run() const { return run_; }
  reader::RunImage* mutable_run() { return &run_; }
  std::vector<reader::BoxImage> Images() const;  // of all processes, without calls
  absl::Time End() const;                        // the last moment that anything tells of

 private:
  void AddBoxes();
  void AddSegments(const std::string& directory);
  ProcessRecording* ProcessOf(const SegmentIndex& index);

  reader::RunImage run_;
  std::vector<ProcessRecording> processes_;
  absl::flat_hash_map<std::string, std::size_t> known_;  // processes
};

}  // namespace ncclwatch::analyzer
