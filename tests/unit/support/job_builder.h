// A job told in a few lines: processes, communicators, calls, deaths, each at the builder's clock; from it the images
// that a diagnosis looks at, or real black boxes on disk.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/model/finding.h"
#include "core/model/snapshot.h"
#include "ncclwatch/functions/function.h"

namespace ncclwatch::testing {

using functions::Function;

inline constexpr std::uint8_t kFloat32 = 7, kInt8 = 0, kBfloat16 = 9, kFloat16 = 6;
inline constexpr std::uint8_t kSum = 0, kMax = 2;

struct Spec {
  Function function = Function::ncclAllReduce;
  std::uint64_t count = 4096;
  std::uint8_t dtype = kFloat32;
  std::uint8_t reduction = kSum;
  std::int32_t root = format::kNoRank;
  std::uint64_t stream = 0x7f0010;
  std::uint64_t site = 0x401a2c;
  std::uint32_t signature = 0;  // of MPI
};
Spec AllReduce(std::uint64_t count = 4096, std::uint8_t dtype = kFloat32, std::uint8_t reduction = kSum);
Spec Broadcast(int root, std::uint64_t count = 4096, std::uint8_t dtype = kFloat32);
Spec AllGather(std::uint64_t count = 1024, std::uint8_t dtype = kFloat32);

// Ranks are job ranks with one process each, rank 0 leads. Seconds count from the start of the job.
class Job {
 public:
  static constexpr int kWorld = 0;  // the communicator of all ranks, made and ready

  explicit Job(int ranks, bool with_world = true);

  void At(double seconds);
  void Pass(double seconds);
  void Marks(bool on) { marks_ = on; }
  void Starts();  // all ranks write start marks too

  // A communicator of some ranks, ready on them. Further ones are numbered 1, 2, ...
  int Comm(const std::vector<int>& ranks, const std::string& label = "", int parent = -1);
  // Some of its ranks are inside the creating call.
  int Joining(std::uint32_t size, const std::vector<int>& ranks_inside);
  reader::Communicator& Entry(int rank, int comm);
  reader::BoxImage& Box(int rank) { return boxes_.at(static_cast<std::size_t>(rank)); }

  std::uint64_t Enter(int rank, int comm, const Spec& spec);  // inside the call; its slot
  void Return(int rank, std::uint64_t slot, std::int32_t result = 0);
  void Call(const std::vector<int>& ranks, int comm, const Spec& spec);  // enters and returns
  void Done(const std::vector<int>& ranks, int comm, const Spec& spec);  // ... and the GPU finishes
  void Finish(const std::vector<int>& ranks, int comm);                  // all that is outstanding
  void Begin(const std::vector<int>& ranks, int comm);                   // the GPU comes to all that is outstanding
  void Group(int rank, const std::function<void()>& calls, bool close = true);
  void Message(int rank, int comm, Function function, int peer, std::uint64_t count = 1024);
  void Other(int rank, Function function, int comm = -1);
  void State(const std::vector<int>& ranks, int comm, format::CommunicatorState state);
  // Behind the application's back; what is outstanding ends on the GPU.
  void Abort(const std::vector<int>& ranks, int comm);

  struct Exit {
    int signal = 0;
    int status = -1;
    bool out_of_memory = false;
  };
  static Exit Signal(int signal) { return {signal, -1, false}; }
  static Exit Status(int status) { return {0, status, false}; }
  static Exit Unknown() { return {}; }
  void Die(int rank, Exit exit);  // and its leader sees it at once
  void Observe(int rank, format::Observed what);
  void Boxless(int rank, std::uint32_t pid);
  void Silence(int rank);  // no heartbeat from now on
  void Unseen(int rank);   // has no box

  diagnosis::Limits limits;
  diagnosis::Snapshot Snapshot() const;  // judged now
  diagnosis::Diagnosis Diagnose() const;
  // Told of each of them.
  static inline std::function<void(const diagnosis::Snapshot&, const diagnosis::Diagnosis&)> on_judged;
  diagnosis::Diagnosis DiagnoseAt(double seconds);
  // One file for each process; the leader's says the limits and the instant of the verdict.
  std::vector<std::string> WriteBoxes(const std::string& directory, bool verdict = true) const;
  std::int64_t now_ns() const { return now_ns_; }

 protected:
  std::uint64_t Append(int rank, reader::Call call);  // entered now; its slot

 private:
  std::vector<reader::BoxImage> Images(bool verdict) const;
  void NoteAbort(reader::Communicator* entry) const;

  std::int64_t now_ns_;
  bool marks_ = true;
  std::uint64_t starts_ = 0;
  int leader_ = 0;
  std::vector<reader::BoxImage> boxes_;
  std::vector<std::vector<int>> members_;              // by communicator
  std::vector<std::map<int, std::size_t>> entries_;    // by communicator: rank -> index in the box's table
  std::map<int, std::uint64_t> group_;                 // rank -> open group
  std::map<int, std::vector<std::uint64_t>> grouped_;  // slots made in it
  std::set<int> silent_, unseen_;
};

// A real black box with the content of the image.
void WriteBox(const reader::BoxImage& image, const std::string& path, std::uint32_t ring = 256);
std::vector<char> BoxBytes(const reader::BoxImage& image, std::uint32_t ring = 256);

std::vector<int> Range(int begin, int end);

}  // namespace ncclwatch::testing
