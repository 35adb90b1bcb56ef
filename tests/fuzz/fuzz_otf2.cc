// Events of OTF2 in any order, with any numbers: each record of the input is one event of one process. The archive's
// own bytes are read by OTF2's library, in a process of its own.
#include <cstdint>
#include <cstring>
#include <utility>

#include "analyzer/import/otf2/process_events.h"
#include "scratch_file.h"

namespace {

using namespace ncclwatch::analyzer::import;

struct Event {
  std::uint8_t kind, region, number, peer;
  std::uint32_t after;  // ticks
};

otf2::Definitions MakeDefinitions() {
  otf2::Definitions made;
  const char* const regions[] = {"main",          "MPI_Send",    "MPI_Recv",     "MPI_Isend",
                                 "MPI_Irecv",     "MPI_Waitall", "MPI_Testsome", "MPI_Sendrecv",
                                 "MPI_Allreduce", "MPI_Ibcast",  "MPI_Startall", "MPI_Bcast"};
  OTF2_RegionRef next = 0;
  for (const char* name : regions) made.regions[next++] = {name, false};
  made.groups[0] = {OTF2_GROUP_TYPE_COMM_LOCATIONS, OTF2_PARADIGM_MPI, {0, 1}};
  made.groups[1] = {OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_MPI, {0, 1, ~std::uint64_t{0}}};
  made.comms[0] = {"world", 1};
  made.comms[1] = {"", OTF2_UNDEFINED_GROUP};
  made.processes[0] = {"rank 0", 0, 0, {0}};
  made.locations[0] = {"thread 1", 0};
  return made;
}

void Play(const Event& event, OTF2_TimeStamp time, otf2::ProcessEvents* to) {
  const otf2::Details details{event.number, event.peer, event.region, event.after};
  switch (event.kind % 12) {
    case 0: return to->Enter(time, event.region);
    case 1: return to->Leave(time, event.region);
    case 2: return to->Send(time, details);
    case 3: return to->Receive(time, details);
    case 4: return to->BeginSend(time, details, event.region);
    case 5: return to->BeginReceive(time, event.region);
    case 6: return to->EndSend(time, event.region);
    case 7: return to->EndReceive(time, details, event.region);
    case 8: return to->Collective(details);
    case 9: return to->BeginCollective(event.region);
    case 10: return to->EndCollective(time, details, event.region);
    case 11: return event.region % 2 == 0 ? to->Begin(0) : to->Cancel(time, event.region);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const otf2::Definitions definitions = MakeDefinitions();
  otf2::ProcessEvents events(definitions, 0);
  events.Begin(0);
  OTF2_TimeStamp time = 0;
  for (; size >= sizeof(Event); data += sizeof(Event), size -= sizeof(Event)) {
    Event event;
    std::memcpy(&event, data, sizeof event);
    time += event.after;
    Play(event, time, &events);
  }
  Trace trace = events.Take();
  const std::size_t calls = trace.calls.size();
  ncclwatch::testing::Require(Finish(std::move(trace)).calls.size() == calls);
  return 0;
}
