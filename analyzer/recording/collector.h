// Reads the calls of the living processes of a run directory through shared memory, and writes them as segments before
// the rings wrap. It only reads: no process of the job waits for it or knows of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/recording/segment_output.h"
#include "core/reader/box.h"

namespace ncclwatch::analyzer {

// Of one directory with boxes. Not thread-safe.
class Collector {
 public:
  Collector(std::string directory, CollectorRequest request);
  ~Collector();

  // Takes what is new. True: some ring filled so fast that the next look should come soon.
  bool Look();
  bool seen_any() const { return !followed_.empty(); }
  bool any_alive() const;
  // Takes and writes everything that is there, and copies the boxes beside the segments.
  void Finish();

  std::uint64_t calls() const { return output_.calls(); }  // written
  // Calls that were overwritten before they could be read, or not written.
  std::uint64_t lost() const { return output_.lost(); }

 private:
  struct Followed;
  void FindNew();
  bool Take(Followed* one, bool all);
  void Write(Followed* one, bool last = false);
  void Resume(Followed* one) const;
  void CopyBox(const Followed& one) const;

  const std::string directory_;
  const CollectorRequest request_;
  std::size_t calls_of_segment_;
  std::map<std::string, std::unique_ptr<Followed>> followed_;  // by path
  std::map<std::string, std::string> unreadable_;              // path and reason
  std::map<std::string, std::uint64_t> resumed_;               // by process: the slot after the last one on disk
  SegmentOutput output_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point next_scan_{}, next_find_{};
};

}  // namespace ncclwatch::analyzer
