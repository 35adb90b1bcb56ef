// A job with its fault, run, and the black boxes that its processes would have left.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "simulation/world.h"
#include "tests/jobs/simulator/program.h"
#include "tests/jobs/simulator/truth.h"

namespace ncclwatch::jobs {

// How a process ended that did not come to its own end.
struct Ending {
  int rank = -1;
  int signal = 0;
  int status = 0;              // where there is no signal
  std::string exception = {};  // what it said before
  bool out_of_memory = false;  // the kernel killed it for want of it
};

// What ncclCommGetAsyncError told a rank.
struct Reported {
  int rank = -1;
  std::int64_t at = 0;
  int comm = -1;  // of the rank
  std::int32_t result = 0;
};

struct Generated {
  Job job;
  std::unique_ptr<World> world;
  Truth truth;
  std::vector<Ending> endings;
  std::vector<Reported> reported;
  std::vector<int> boxless;  // ranks without a black box
  format::Observed frozen = format::Observed::kStopped;
  std::int64_t now = 0;         // the instant that is judged
  bool verdict = false;         // a leader judged then, and the boxes were read a little later
  std::int64_t read_after = 0;  // ... by so much
  bool exits_known = true;
};

// A leader reads the last box this long after the instant that it judges, at most.
inline constexpr std::int64_t kReadLate = 20 * kMilli;

const std::vector<std::string>& FaultNames();  // "healthy" last

const std::vector<std::string>& PeerFaultNames();  // of `job_matrix peers`

// False if there is no such topology or fault, or the one cannot have the other.
bool Generate(const Shape& shape, Generated* made);

// A black box of real format, in memory of pages.
class BoxMemory {
 public:
  explicit BoxMemory(std::uint64_t bytes);
  ~BoxMemory();
  BoxMemory(const BoxMemory&) = delete;
  BoxMemory& operator=(const BoxMemory&) = delete;
  format::Header* header() { return reinterpret_cast<format::Header*>(memory_); }
  const char* data() const { return memory_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  char* memory_;
  std::uint64_t bytes_;
};
std::unique_ptr<BoxMemory> MakeBox(const Generated& made, int rank);
std::string BoxName(const Generated& made, int rank);
bool HasBox(const Generated& made, int rank);
// All boxes into a folder, which is made if it is not there. False if that fails.
bool WriteBoxes(const Generated& made, const std::string& folder);
// The command that makes the same job again.
std::string CommandOf(const Shape& shape);

}  // namespace ncclwatch::jobs
