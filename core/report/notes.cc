#include "core/report/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "core/model/text.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::BoxImage;

std::vector<int> RanksWhere(const View& view, const std::function<bool(const BoxImage&)>& holds) {
  std::vector<int> ranks;
  for (const Node& node : view.nodes) {
    if (holds(*view.process(node).box)) ranks.push_back(node.rank);
  }
  return ranks;
}

bool AnyCall(const BoxImage& box, std::uint32_t flags) {
  if (box.dump) return false;  // it tells of none
  for (const reader::Call& call : box.calls) {
    if ((call.flags & flags) != 0) return true;
  }
  return false;
}

// Of a dump: inside the library, or enqueued and not known to be over.
bool AnyUnderWay(const BoxImage& box) {
  const auto inside = [](const reader::Call& call) { return call.returned_ns == 0; };
  return std::any_of(box.calls.begin(), box.calls.end(), inside) || std::any_of(box.communicators.begin(), box.communicators.end(), [&](const reader::Communicator& comm) {
    return std::any_of(box.calls.begin(), box.calls.end(), [&](const reader::Call& call) {
      return call.communicator == comm.index && call.generation == comm.generation &&
             (call.flags & format::kMarked) != 0 && !comm.Finished(call.ticket);
    });
  });
}

std::uint64_t Sum(const View& view, const std::function<std::uint64_t(const BoxImage&)>& count) {
  std::uint64_t sum = 0;
  for (const Process& process : view.processes) sum += count(*process.box);
  return sum;
}

std::uint64_t Flagged(const BoxImage& box, std::uint32_t flag) {
  std::uint64_t count = 0;
  for (const reader::Communicator& comm : box.communicators) count += (comm.flags & flag) != 0 ? 1 : 0;
  return count;
}

// "MPI_Recv (3), MPI_Wait (1)", the most frequent first.
std::string CallsText(const std::map<std::string_view, int>& ranks_in) {
  std::vector<std::pair<int, std::string_view>> order;
  for (const auto& [name, count] : ranks_in) order.emplace_back(-count, name);
  std::sort(order.begin(), order.end());
  constexpr std::size_t kMost = 4;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(order.size(), kMost); ++i)
    texts.push_back(std::string(order[i].second) + " (" + std::to_string(-order[i].first) + ")");
  return Join(texts, ", ") + (order.size() > kMost ? ", ..." : "");
}

}  // namespace

std::string StandstillOfAll(const View& view) {
  if (view.nodes.empty() || std::ssize(view.nodes) < view.expected) return {};
  std::map<std::string_view, int> ranks_in;
  std::int64_t since_ns = INT64_MIN;
  for (const Node& node : view.nodes) {
    const Process& process = view.process(node);
    const reader::Call* call = node.last;
    if (process.outcome.ended() || process.box->dump || call == nullptr) return {};
    if (!functions::IsMpi(call->function) || call->returned_ns != 0) return {};
    ++ranks_in[functions::FullName(call->function)];
    since_ns = std::max({since_ns, process.At(call->entered_ns), node.active_ns});
  }
  if (view.now_ns - since_ns < view.snapshot->limits.likely_after_ns) return {};
  return fmt::format(
      "all {} have been inside MPI calls for {}, {}, and nothing that is watched explains it (not watched: messages to "
      "spawned processes, partitioned messages, and file systems)",
      Plural(view.nodes.size(), "rank"), Seconds(view.now_ns - since_ns), CallsText(ranks_in));
}

void AddMissing(const View& view, std::vector<std::string>* missing) {
  const auto off = RanksWhere(view, [](const BoxImage& box) { return !box.watching; });
  if (!off.empty()) missing->push_back(Ranks(off) + ": watching is switched off: later calls are not seen");
  const std::uint64_t lost = Sum(view, [](const BoxImage& box) { return box.communicators_lost; });
  if (lost > 0)
    missing->push_back(Plural(lost, "communicator") +
                       " found no room in a black box and is not watched (NCCLWATCH_COMMUNICATORS)");
  const auto uncounted = RanksWhere(view, [](const BoxImage& box) { return box.peers_lost > 0; });
  if (!uncounted.empty())
    missing->push_back(Ranks(uncounted) + ": not all of their messages are counted: who waits for one is not known");
  if (!RanksWhere(view, [](const BoxImage& box) { return box.window; }).empty())
    missing->push_back(
        "traces of a profiler hold what was over: whether the job stopped, a rank died or a call failed was not "
        "checked, only whether the ranks made the same calls and who came late");
  const auto pending = RanksWhere(view, [](const BoxImage& box) { return box.dump && AnyUnderWay(box); });
  if (!pending.empty())
    missing->push_back(Ranks(pending) +
                       ": calls were under way, and dumps do not say whether the processes lived and for how long the "
                       "calls may take");
}

void AddNotes(const View& view, std::vector<std::string>* notes) {
  const auto where = [&](const std::string& text, const std::function<bool(const BoxImage&)>& holds) {
    const std::vector<int> ranks = RanksWhere(view, holds);
    if (!ranks.empty()) notes->push_back(Ranks(ranks) + ": " + text);
  };
  where("more kinds of wrong MPI use than a black box has room for: only the first are reported",
        [](const BoxImage& box) { return box.words.misuses_lost > 0; });
  where("no GPU marks (unavailable): a call that has returned may or may not have finished",
        [](const BoxImage& box) { return box.gpu_marks == format::GpuMarks::kUnavailable; });
  where("no GPU marks (NCCLWATCH_GPU=off): a call that has returned may or may not have finished",
        [](const BoxImage& box) { return box.gpu_marks == format::GpuMarks::kOff; });
  const bool starts = std::any_of(view.processes.begin(), view.processes.end(), [](const Process& process) {
    return process.box->gpu_marks == format::GpuMarks::kBoth;
  });
  if (starts)
    where("no start marks (NCCLWATCH_GPU=end): whether the GPU has begun a call is not known",
          [](const BoxImage& box) { return box.gpu_marks == format::GpuMarks::kOn; });
  where("calls captured into CUDA graphs carry no GPU mark, and replays are not seen",
        [](const BoxImage& box) { return AnyCall(box, format::kCaptured); });
  where("calls on non-blocking communicators carry no GPU mark: returned does not mean enqueued",
        [](const BoxImage& box) { return AnyCall(box, format::kNonBlocking); });
  where("collectives with more amounts than a black box keeps for one call were not compared",
        [](const BoxImage& box) { return AnyCall(box, format::kTooManyParts); });
  where("its messages have more sizes than can be kept for so many ranks: sizes of older messages were not compared",
        [](const BoxImage& box) { return box.sizes_until != UINT64_MAX; });
  // Not missing: a process that was forked in a call leaves one that it never began to use.
  const std::uint64_t damaged = Sum(view, [](const BoxImage& box) { return box.damaged; });
  if (damaged > 0) notes->push_back(Plural(damaged, "communicator entry") + " damaged and left out");
  const std::uint64_t foreign = Sum(view, [](const BoxImage& box) { return Flagged(box, format::kCommForeign); });
  if (foreign > 0)
    notes->push_back(Plural(foreign, "communicator") +
                     " with processes of another MPI_COMM_WORLD: not compared across ranks");
  const std::uint64_t unknown =
      Sum(view, [](const BoxImage& box) { return Flagged(box, format::kCommIdentityUnknown); }) - foreign;
  if (unknown > 0) {
    notes->push_back(Plural(unknown, "communicator") + " made before watching began: not compared across ranks");
  }
  const std::uint64_t grown = Sum(view, [](const BoxImage& box) { return Flagged(box, format::kCommGrown); });
  if (grown > 0) notes->push_back(Plural(grown, "communicator") + " made by ncclCommGrow: not compared across ranks");
}

}  // namespace ncclwatch::diagnosis
