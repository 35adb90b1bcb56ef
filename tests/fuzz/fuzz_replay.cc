// Recordings that have been edited or were never whole, on the model: calls that are gone, that speak of communicators
// which their rank does not have, or of ranks, times and amounts that cannot be. The input is a list of edits.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/edit/scale.h"
#include "analyzer/replay/fit.h"
#include "analyzer/replay/outcome.h"
#include "analyzer/replay/program.h"
#include "simulation/world.h"

using namespace ncclwatch;
using analyzer::Job;
using functions::Function;
using reader::Call;

namespace {

constexpr int kRanks = 3;
constexpr std::uint64_t kWorld = 0x11, kChild = 0x22, kMpiWorld = 0x33, kMpiChild = 0x44;
enum : std::uint32_t { kOnWorld, kOnChild, kOnMpiWorld, kOnMpiChild };

class Box {
 public:
  explicit Box(int rank) : rank_(rank) {
    image_.host = "node";
    image_.pid = 100 + static_cast<std::uint32_t>(rank);
    image_.rank = rank;
    image_.world_size = kRanks;
    AddCommunicator(kOnWorld, kWorld, 0, 0);
    AddCommunicator(kOnChild, kChild, kWorld, 0);
    AddCommunicator(kOnMpiWorld, kMpiWorld, 0, format::kCommMpi);
    AddCommunicator(kOnMpiChild, kMpiChild, kMpiWorld, format::kCommMpi);
  }

  reader::BoxImage Make() {
    const int right = (rank_ + 1) % kRanks, left = (rank_ + kRanks - 1) % kRanks;
    Add(Function::ncclCommInitRank, kOnWorld);
    Add(Function::ncclAllReduce, kOnWorld).count = 64;
    Add(Function::ncclGroupStart, format::kNoCommunicator);
    Add(Function::ncclSend, kOnWorld, right).count = 8;
    Add(Function::ncclRecv, kOnWorld, left).count = 8;
    Add(Function::ncclGroupEnd, format::kNoCommunicator);
    Add(Function::ncclCommSplit, kOnWorld);
    Add(Function::ncclBroadcast, kOnChild, 1).count = 64;
    Add(Function::ncclReduce, kOnChild, 0).count = 64;
    Add(Function::ncclCommDestroy, kOnChild);
    AddRequest(Function::MPI_Irecv, left, 14);
    AddRequest(Function::MPI_Isend, right, 14);
    Add(Function::MPI_Allreduce, kOnMpiWorld).bytes = 8;
    Add(Function::MPI_Waitall, format::kNoCommunicator).count = 2;
    Add(Function::MPI_Sendrecv, kOnMpiWorld, right).group = 15;
    Add(Function::MPI_Sendrecv, kOnMpiWorld, left).group = 15;
    Add(Function::MPI_Bcast, kOnMpiWorld, 1).bytes = 1 << 20;
    Add(Function::MPI_Comm_split, kOnMpiWorld).position = 2;
    Add(Function::MPI_Scan, kOnMpiChild).bytes = 8;
    Add(Function::MPI_Finalize, format::kNoCommunicator);
    image_.head = image_.calls.size();
    return image_;
  }

 private:
  void AddCommunicator(std::uint32_t index, std::uint64_t id, std::uint64_t parent, std::uint32_t flags) {
    reader::Communicator& one = image_.communicators.emplace_back();
    one.index = index;
    one.id = id;
    one.parent = parent;
    one.parent_ordinal = id == kMpiChild ? 2 : 0;
    one.rank = static_cast<std::uint32_t>(rank_);
    one.size = kRanks;
    one.flags = flags;
    one.state = format::CommunicatorState::kReady;
  }

  Call& Add(Function function, std::uint32_t communicator, int root = format::kNoRank) {
    Call& call = image_.calls.emplace_back();
    call.slot = image_.calls.size() - 1;
    call.function = function;
    call.communicator = communicator;
    call.root = root;
    call.entered_ns = static_cast<std::int64_t>(call.slot + 1) * 1'000;
    call.returned_ns = call.entered_ns + 500;
    call.result = 0;
    call.dtype = 7;
    return call;
  }

  void AddRequest(Function function, int peer, std::uint64_t waiter) {
    Call& call = Add(function, kOnMpiWorld, peer);
    call.flags |= format::kRequest;
    call.waiter = waiter;
    call.completed_ns = call.entered_ns + 4'000;
    call.bytes = 1 << 16;
  }

  const int rank_;
  reader::BoxImage image_;
};

struct Edit {
  std::uint8_t rank, what;
  std::uint16_t place;
  std::uint32_t value;
};
static_assert(sizeof(Edit) == 8);

void Apply(const Edit& edit, reader::BoxImage* box, std::set<std::pair<int, std::uint64_t>>* dropped) {
  if (box->calls.empty()) return;
  Call& call = box->calls[edit.place % box->calls.size()];
  reader::Communicator& on = box->communicators[edit.place % box->communicators.size()];
  const std::int64_t far = static_cast<std::int64_t>(std::uint64_t{edit.value} << 32);
  switch (edit.what % 24) {
    case 0: dropped->insert({box->rank, call.slot}); break;
    case 1: call.function = static_cast<Function>(edit.value % 2'000); break;
    case 2: call.root = static_cast<std::int32_t>(edit.value); break;
    case 3: call.communicator = edit.value % 6; break;
    case 4: call.generation = edit.value % 2; break;
    case 5: call.count = std::uint64_t{edit.value} << 32; break;
    case 6: call.bytes = std::uint64_t{edit.value} << 32; break;
    case 7: call.dtype = static_cast<std::uint8_t>(edit.value); break;
    case 8: call.flags ^= edit.value; break;
    case 9: call.waiter = edit.value % 32; break;
    case 10: call.group = edit.value % 32; break;
    case 11: call.returned_ns = edit.value % 2 == 0 ? 0 : far; break;
    case 12: call.entered_ns = far; break;
    case 13: call.position = edit.value % 8; break;
    case 14: call.result = static_cast<std::int32_t>(edit.value); break;
    case 15: call.completed_ns = far; break;
    case 16: on.size = edit.value % 5; break;
    case 17: on.rank = edit.value % 5; break;
    case 18: on.id = 0x11 * (edit.value % 6); break;
    case 19: on.parent = 0x11 * (edit.value % 6); break;
    case 20: on.flags ^= edit.value; break;
    case 21: on.index = edit.value % 6; break;
    case 22: on.parent_ordinal = edit.value % 4; break;
    case 23: call.stream = edit.value % 16; break;
  }
}

void Replay(const analyzer::Recording& recording, analyzer::WhatIf what_if) {
  const auto program = analyzer::RecordedProgram::Make(recording, std::move(what_if), {});
  if (!program.ok()) return;
  simulation::World world(**program);
  world.Run();
  (*program)->ReadRest();
  analyzer::OutcomeOf(recording, **program, world, 8, [](const reader::BoxImage&, std::uint64_t) {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Job job;
  for (int rank = 0; rank < kRanks; ++rank) {
    job.boxes.push_back(Box(rank).Make());
    job.was.push_back(rank);
  }
  analyzer::WhatIf what_if;
  for (std::size_t at = 0; at + sizeof(Edit) <= size; at += sizeof(Edit)) {
    Edit edit;
    std::memcpy(&edit, data + at, sizeof edit);
    Apply(edit, &job.boxes[edit.rank % kRanks], &what_if.dropped);
  }
  const auto recording = analyzer::Recording::Of(job.boxes);
  Replay(recording, what_if);
  what_if.no_gaps = true;
  Replay(recording, what_if);
  analyzer::FitCosts(recording).IgnoreError();
  analyzer::CrossValidate(recording).IgnoreError();
  if (analyzer::ScaleTo(2 * kRanks, &job).ok()) Replay(analyzer::Recording::Of(job.boxes), {});
  return 0;
}
