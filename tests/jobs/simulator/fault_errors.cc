// Faults that NCCL or CUDA tell of: memory that is refused, errors that NCCL returns or sets asynchronously.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>

#include "tests/jobs/simulator/fault.h"

namespace ncclwatch::jobs {
namespace {

bool LibraryError(Draft* draft) {
  const bool grouped = draft->dice.OneIn(2);
  std::optional<Spot> spot;
  if (grouped) spot = draft->Find([](const Op& op) { return op.what == Do::kGroupEnd; }, false, true);
  if (!spot) spot = draft->Find([](const Op& op) { return op.what == Do::kCall; });
  if (!spot) return false;
  constexpr std::int32_t kResults[] = {1, 2, 3, 4};
  Op failed = Planted(spot->op);
  failed.result = draft->dice.Of(kResults, 4);
  if (failed.what == Do::kGroupEnd && failed.result == 4) failed.result = 3;
  const bool dies = draft->dice.OneIn(2);
  Ops rest = {failed, {.what = Do::kWork, .ns = 150 * kMilli}, {.what = Do::kHang}};
  if (dies) rest.back() = {.what = Do::kExit, .root = 1};
  draft->Change(spot->rank, {.how = Edit::How::kCut, .section = spot->section, .index = spot->index, .ops = rest});
  if (dies)
    draft->made->endings.push_back(
        {spot->rank, 0, 1, "torch.distributed.DistBackendError: NCCL error in ProcessGroupNCCL"});
  draft->look = dies ? Look::kAfterDeath : Look::kAfterStall;
  draft->truth().answers = {Exactly("library_error", {spot->rank})};
  draft->truth().may_be_certain = dies;
  draft->truth().story =
      fmt::format("NCCL refuses a call of rank {}, which {}", spot->rank, dies ? "ends of it" : "does nothing more");
  return true;
}

// A connection breaks: the call stays stuck everywhere, and one rank's NCCL is the first to say so.
bool AsynchronousError(Draft* draft) {
  const std::optional<Spot> spot = draft->Find([](const Op& op) { return IsCollective(op) && op.count > 0; });
  if (!spot || draft->CommAt(spot->op.comm).size() < 3) return false;
  Op stuck = Planted(spot->op);
  stuck.stalls = true;
  draft->Change(spot->rank,
                {.how = Edit::How::kReplace, .section = spot->section, .index = spot->index, .ops = {stuck}});
  constexpr std::int32_t kResults[] = {2, 3, 6};
  draft->error = AsyncError{spot->rank, spot->op.comm, draft->dice.Of(kResults, 3), draft->dice.OneIn(2)};
  draft->look = draft->error->dies ? Look::kAfterDeath : Look::kAfterStall;
  draft->truth().answers = {Exactly("library_error", {spot->rank})};
  draft->truth().may_be_certain = draft->error->dies;
  draft->truth().story = fmt::format("a connection of rank {} breaks; its NCCL says so first", spot->rank);
  return true;
}

Op Allocation(bool granted) { return Planted({.what = Do::kAllocate, .root = granted ? 1 : 0}); }

bool OutOfMemory(Draft* draft) {
  const std::optional<Spot> spot = draft->Find([](const Op& op) { return op.what == Do::kCall; });
  if (!spot) return false;
  const int rank = spot->rank;
  Truth& truth = draft->truth();
  truth.answers = {Exactly("out_of_memory", {rank})};
  truth.story = fmt::format("rank {} gets no memory and ", rank);
  const int how = draft->dice.Below(3);
  if (how == 0) {
    draft->doomed = rank;
    draft->made->endings.push_back({.rank = rank, .signal = SIGKILL, .out_of_memory = true});
    draft->look = Look::kAfterDeath;
    truth.story = fmt::format("the kernel kills rank {} for want of memory", rank);
    // Where nobody saw how it ended only its absence can be told.
    if (!draft->made->exits_known) truth.answers = {Exactly("dead_rank", {rank})};
    return true;
  }
  Ops rest = {Allocation(false), {.what = Do::kWork, .ns = 100 * kMilli}, {.what = Do::kHang}};
  if (how == 1) {
    rest.back() = {.what = Do::kExit, .root = 1};
    draft->made->endings.push_back({rank, 0, 1, "torch.OutOfMemoryError: CUDA out of memory."});
  }
  draft->Change(rank, {.how = Edit::How::kCut, .section = spot->section, .index = spot->index, .ops = rest});
  draft->look = how == 1 ? Look::kAfterDeath : Look::kAfterStall;
  truth.may_be_certain = how == 1;
  truth.story += how == 1 ? "ends of it" : "does nothing more";
  return true;
}

// The application frees its cache and asks again.
bool MemoryGranted(Draft* draft) {
  const std::optional<Spot> spot = draft->Find([](const Op& op) { return op.what == Do::kCall; });
  if (!spot) return false;
  draft->Change(spot->rank, {.section = spot->section, .index = spot->index, .ops = {Allocation(true)}});
  draft->truth().silence = true;
  draft->truth().story = fmt::format("rank {} is refused memory and gets over it", spot->rank);
  return true;
}

}  // namespace

const std::vector<Fault> kErrorFaults = {
    {"library_error", LibraryError},
    {"asynchronous_error", AsynchronousError},
    {"out_of_memory", OutOfMemory},
    {"memory_granted", MemoryGranted},
};

}  // namespace ncclwatch::jobs
