// invalid_argument of accesses to windows that reach past the end of their target's memory. The caller cannot know
// where that is: the target alone has said it, when the window was made.
#include <fmt/format.h>

#include <algorithm>

#include "core/model/text.h"
#include "core/mpi/accesses.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

struct Beyond {
  const Member* member = nullptr;  // the caller
  const Call* call = nullptr;
  Extent extent;
  std::uint64_t memory = 0;  // what the target has
  std::int64_t at_ns = 0;
};

std::optional<Beyond> ReachesBeyond(const View& view, const CommView& comm, const Member& member, const Call& call) {
  if (!IsAccess(call) || (call.result != 0 && call.result != format::kNoResult)) return std::nullopt;
  const std::optional<Extent> extent = ExtentOf(comm, call);
  if (!extent) return std::nullopt;
  const std::optional<std::uint64_t> memory = MemoryOf(*comm.OfRank(static_cast<std::uint32_t>(call.root)));
  if (!memory || (extent->begin <= extent->end && extent->end <= *memory)) return std::nullopt;
  return Beyond{&member, &call, *extent, *memory, view.process(member).At(call.entered_ns)};
}

// The first of each rank, in order of time.
std::vector<Beyond> AllBeyond(const View& view, const CommView& comm) {
  std::vector<Beyond> all;
  for (const Member& member : comm.members) {
    if (member.node < 0) continue;
    for (const Call& call : view.process(member).box->calls) {
      if (call.communicator != member.comm->index || call.generation != member.comm->generation) continue;
      const std::optional<Beyond> beyond = ReachesBeyond(view, comm, member, call);
      if (!beyond) continue;
      all.push_back(*beyond);
      break;
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Beyond& a, const Beyond& b) { return a.at_ns < b.at_ns; });
  return all;
}

Finding Explain(const View& view, const CommView& comm, const std::vector<Beyond>& all) {
  const Beyond& first = all.front();
  Finding finding;
  finding.kind = Kind::kInvalidArgument;
  finding.certainty = Certainty::kCertain;
  std::vector<int> ranks;
  for (const Beyond& beyond : all) ranks.push_back(view.nodes[beyond.member->node].rank);
  AddCulprits(view, SortedUnique(ranks), &finding);
  finding.communicator = DescribeComm(comm);
  finding.began_at_ns = ToRealtime(view, first.at_ns);
  constexpr std::size_t kEnough = 8;
  for (std::size_t i = 0; i < std::min(all.size(), kEnough); ++i) {
    const Beyond& beyond = all[i];
    const int target = view.JobRank(comm, static_cast<std::uint32_t>(beyond.call->root));
    CallSummary call = DescribeCall(view, comm, *beyond.member, beyond.call->position, beyond.call);
    call.root.reset();
    call.peer = PeerName{beyond.call->root, target};
    call.state = beyond.call->returned_ns == 0 ? CallState::kEntered : CallState::kReturned;
    finding.evidence.push_back(fmt::format("{} calls {} on bytes {} to {} of {}'s memory, which has {}{}",
                                           Ranks(call.ranks), CallText(*beyond.call), beyond.extent.begin,
                                           beyond.extent.end - 1, Ranks({target}), Plural(beyond.memory, "byte"),
                                           call.site_text ? ", at " + *call.site_text : ""));
    finding.calls.push_back(std::move(call));
  }
  const int target = view.JobRank(comm, static_cast<std::uint32_t>(first.call->root));
  finding.summary = fmt::format("{} accesses bytes {} to {} of {}'s memory in {}, which ends after {}{}.",
                                Capital(Ranks({view.nodes[first.member->node].rank})), first.extent.begin,
                                first.extent.end - 1, Ranks({target}), CommText(comm), Plural(first.memory, "byte"),
                                all.size() > 1 ? "; other accesses do so too" : "");
  finding.next_steps = {fmt::format(
      "compare displacement, count and the target's unit with the size that {} gave when the window was made",
      Ranks({target}))};
  return finding;
}

}  // namespace

std::vector<Finding> FindAccessesOutOfBounds(const Facts& facts) {
  const View& view = facts.view;
  std::vector<Finding> findings;
  for (const CommView& comm : view.comms) {
    if (!IsWindow(comm) || !comm.comparable) continue;
    const std::vector<Beyond> all = AllBeyond(view, comm);
    if (!all.empty()) findings.push_back(Explain(view, comm, all));
  }
  return findings;
}

}  // namespace ncclwatch::diagnosis
