// The events of one process as calls of MPI and operations between them.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <otf2/otf2.h>

#include <cstdint>
#include <vector>

#include "analyzer/import/base/trace.h"
#include "analyzer/import/otf2/definitions.h"

namespace ncclwatch::analyzer::import::otf2 {

// What a record tells of a message or a collective; the peer, or the root, by its rank in the communicator.
struct Details {
  OTF2_CommRef comm = OTF2_UNDEFINED_COMM;
  std::uint32_t peer = OTF2_UNDEFINED_UINT32, tag = OTF2_UNDEFINED_UINT32;
  std::uint64_t bytes = 0;
};

class ProcessEvents {
 public:
  ProcessEvents(const Definitions& definitions, OTF2_LocationGroupRef process);

  void Begin(OTF2_LocationRef location);  // of its events
  void Enter(OTF2_TimeStamp time, OTF2_RegionRef region);
  void Leave(OTF2_TimeStamp time, OTF2_RegionRef region);
  void Send(OTF2_TimeStamp time, const Details& details);
  void Receive(OTF2_TimeStamp time, const Details& details);
  void Collective(const Details& details);
  // A request that the present call has begun.
  void BeginSend(OTF2_TimeStamp time, const Details& details, std::uint64_t request);
  void BeginReceive(OTF2_TimeStamp time, std::uint64_t request);
  void BeginCollective(std::uint64_t request);
  // ... and one that the present call has ended.
  void EndSend(OTF2_TimeStamp time, std::uint64_t request);
  void EndReceive(OTF2_TimeStamp time, const Details& details, std::uint64_t request);
  void EndCollective(OTF2_TimeStamp time, const Details& details, std::uint64_t request);
  void Cancel(OTF2_TimeStamp time, std::uint64_t request);

  Trace Take();

 private:
  // Regions that have not been left.
  struct Frame {
    OTF2_RegionRef region = 0;
    std::int64_t entered_ns = 0;
    functions::Function function{};  // kNone: none of MPI that counts
    std::int64_t running_ns = 0;     // since when the region itself runs
    std::vector<std::size_t> calls;  // made in it
    std::vector<std::size_t> ended;  // requests that end with it
    bool program = false;            // of the program
  };
  std::int64_t At(OTF2_TimeStamp time) const { return definitions_.Nanoseconds(time); }
  void Run(std::int64_t until_ns, Frame* frame);  // an operation, until then
  std::size_t AddCall(functions::Function function, std::int64_t entered_ns, Frame* frame);
  TraceCall& CallFor(bool sends, functions::Function alone, std::int64_t at_ns, Frame* frame);
  void Settle(const Details& details, TraceCall* traced);
  TraceCall* Request(std::uint64_t request);
  TraceCall* End(OTF2_TimeStamp time, std::uint64_t request);
  Frame& Top(OTF2_TimeStamp time);
  int GroupOf(OTF2_CommRef comm);
  void Close(std::int64_t at_ns, Frame* frame);
  void OrderByTime();

  const Definitions& definitions_;
  Trace trace_;
  std::uint32_t thread_ = 0;
  std::vector<Frame> frames_;                                 // of the present location
  Frame outside_;                                             // of all regions
  absl::flat_hash_map<std::uint64_t, std::size_t> requests_;  // under way, by number: calls
  absl::flat_hash_map<OTF2_CommRef, int> group_of_;
};

}  // namespace ncclwatch::analyzer::import::otf2
