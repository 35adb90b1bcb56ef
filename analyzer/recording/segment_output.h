// Encodes, compresses and writes segments in a thread of its own, so that whoever reads the rings never waits for that:
// a ring of 65,536 calls may wrap within 10 ms, and a segment of as many takes longer.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "analyzer/segments/segment_file.h"
#include "core/reader/image.h"

namespace ncclwatch::analyzer {

struct CollectorRequest {
  std::string to;                // directory of the segments, which exists
  std::uint64_t most_bytes = 0;  // of segments: the oldest files go first. 0: no limit
};

class SegmentOutput {
 public:
  struct Segment {
    reader::BoxImage image;
    std::uint64_t begin = 0, end = 0;  // slots
    bool last = false;
  };

  explicit SegmentOutput(CollectorRequest request);
  ~SegmentOutput();
  SegmentOutput(const SegmentOutput&) = delete;
  SegmentOutput& operator=(const SegmentOutput&) = delete;

  // More calls wait than memory is meant for: what is read now would only move the loss.
  bool full() const;
  void Add(Segment segment);
  // Returns when all is written, or cannot be.
  void Finish();

  std::uint64_t calls() const;  // written
  std::uint64_t lost() const;   // slots that no segment holds a call of

 private:
  void Run();
  bool Write(const Segment& segment);
  void MakeRoom(std::uint64_t bytes);

  const CollectorRequest request_;
  std::unique_ptr<SegmentWriter> file_;
  std::vector<std::string> written_files_;
  unsigned files_ = 0;
  bool failed_ = false;  // the last write did

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Segment> waiting_;
  std::uint64_t calls_waiting_ = 0, calls_ = 0, lost_ = 0;
  bool finishing_ = false;
  std::thread thread_;  // the last member: it uses all the others
};

}  // namespace ncclwatch::analyzer
