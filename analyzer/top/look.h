// Looks at the black boxes of a run directory again and again. They stay mapped; a look copies what has changed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "analyzer/top/job.h"
#include "core/reader/box.h"

namespace ncclwatch::analyzer::top {

// A box that somebody cuts short reads as zeroes: SIGBUS has a handler (jobs/signals.h). One thread.
class Sampler {
 public:
  explicit Sampler(std::string directory) : directory_(std::move(directory)) {}
  // Everything but the assessment.
  Job Look();

 private:
  struct Counts {
    std::uint64_t calls = 0;
    double bytes = 0;  // about, where not all calls could be read
  };
  // What was seen of one communicator of a process.
  struct Entry {
    std::uint32_t generation = 0;
    std::uint64_t newest = UINT64_MAX;  // slot of its newest call
    double bytes = 0;
    Counts before = {};  // at the last look
  };
  struct Box {
    std::unique_ptr<reader::MappedBox> mapped;
    std::string boot_id;
    bool alive = false, looked_at = false;
    std::size_t clock = 0;    // as in Member
    std::int64_t now_ns = 0;  // on it
    std::uint64_t head = 0;   // all slots before it were read, or passed over
    Counts before;
    double bytes = 0;
    std::unordered_map<std::uint32_t, Entry> entries;  // by index in the box's table
  };

  void FindBoxes(Job* job);
  void SetClocks();
  void ReadNewCalls(Box* box, std::uint64_t most);
  Process ProcessOf(Box* box, double elapsed_s);
  void AddMembers(Box* box, std::size_t process, double elapsed_s, Job* job);
  Member MemberOf(Box* box, const reader::Communicator& communicator, double elapsed_s);

  const std::string directory_;
  std::map<std::string, Box> boxes_;  // by path
  std::int64_t looked_ns_ = 0;
};

}  // namespace ncclwatch::analyzer::top
