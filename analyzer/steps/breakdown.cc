#include "analyzer/steps/breakdown.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <utility>

#include "analyzer/steps/intervals.h"
#include "core/slow/robust.h"
#include "ncclwatch/format/note.h"
#include "ncclwatch/functions/function.h"

namespace ncclwatch::analyzer {
namespace {

using reader::OperationKind;

using CallKey = std::pair<std::uint64_t, std::uint64_t>;  // communicator, position

// What is kept of an operation.
struct Work {
  Interval at;
  std::int64_t step = format::kNoStep;
  OperationKind kind{};
  std::uint32_t call = UINT32_MAX;  // place in RankWork::calls: a collective that it carries out
};

struct RankWork {
  int rank = -1;
  std::vector<Work> all;       // in order of their beginnings
  std::vector<CallKey> calls;  // of collectives, with a kernel
  std::vector<std::int64_t> kernel_ns;
};

// How long the kernels of one call ran, over the ranks.
struct Ran {
  std::vector<std::int64_t> all_ns;
  std::int64_t least_ns = 0, middle_ns = 0;
};
using RanByCall = absl::flat_hash_map<CallKey, Ran>;

bool HasOperations(const ProcessRecording& process) {
  return std::any_of(process.segments().begin(), process.segments().end(),
                     [](const auto& segment) { return segment.place->index.header.operations > 0; });
}

// Places in `calls` by slot + 1, as operations name their calls.
absl::flat_hash_map<std::uint64_t, std::uint32_t> AddCalls(const Piece& piece, RankWork* work) {
  absl::flat_hash_map<std::uint32_t, std::uint64_t> id_of;
  for (const reader::Communicator& one : piece.communicators) id_of[one.index] = one.id;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> place_of;
  for (const reader::Call& call : piece.calls) {
    if (!functions::IsCollective(call.function) || call.kernel.clock == format::KernelClock::kNone) continue;
    place_of[call.slot + 1] = static_cast<std::uint32_t>(work->calls.size());
    work->calls.emplace_back(id_of[call.communicator], call.position);
    work->kernel_ns.push_back(static_cast<std::int64_t>(call.kernel.ns));
  }
  return place_of;
}

RankWork WorkOf(const ProcessRecording& process, std::vector<reader::Failure>* failures) {
  RankWork work;
  work.rank = process.rank();
  absl::flat_hash_map<std::uint64_t, std::uint32_t> place_of;
  PieceReader pieces(process);
  for (Piece piece; pieces.Next(&piece, failures);) {
    place_of.merge(AddCalls(piece, &work));
    for (const reader::Operation& one : piece.operations.all) {
      if (one.kind == OperationKind::kStep) continue;
      const std::int64_t began = one.began_ns + piece.realtime_minus_monotonic_ns;
      work.all.push_back({{began, began + one.duration_ns}, one.step, one.kind, UINT32_MAX});
      // A call lies in the piece of its operation or in another one: its slot stands for it until all are read.
      if (one.call != 0)
        work.all.back().call = static_cast<std::uint32_t>(std::min<std::uint64_t>(one.call, UINT32_MAX - 1));
    }
  }
  for (Work& one : work.all) {
    const auto found = place_of.find(one.call);
    one.call = found == place_of.end() ? UINT32_MAX : found->second;
  }
  std::stable_sort(work.all.begin(), work.all.end(),
                   [](const Work& a, const Work& b) { return a.at.begin < b.at.begin; });
  return work;
}

RanByCall Match(const std::vector<RankWork>& ranks) {
  RanByCall ran;
  for (const RankWork& work : ranks)
    for (std::size_t i = 0; i < work.calls.size(); ++i) ran[work.calls[i]].all_ns.push_back(work.kernel_ns[i]);
  for (auto& [key, one] : ran) {
    one.least_ns = *std::min_element(one.all_ns.begin(), one.all_ns.end());
    one.middle_ns = diagnosis::Median(one.all_ns);
  }
  return ran;
}

// The parts of one rank's time, as intervals that do not touch.
class Timeline {
 public:
  Timeline(const RankWork& work, const RanByCall& ran) {
    Intervals of[4], waits;
    for (const Work& one : work.all) {
      of[static_cast<std::size_t>(one.kind)].push_back(one.at);
      if (one.call == UINT32_MAX) continue;
      const Ran& all = ran.at(work.calls[one.call]);
      const std::int64_t took = work.kernel_ns[one.call];
      if (all.all_ns.size() > 1 && took > all.least_ns)
        waits.push_back({one.at.begin, std::min(one.at.end, one.at.begin + took - all.least_ns)});
      else if (all.all_ns.size() > 1)
        late_.emplace_back(one.at.begin, all.middle_ns - took);
    }
    const auto in = [&](OperationKind kind) { return Joined(std::move(of[static_cast<std::size_t>(kind)])); };
    compute_ = in(OperationKind::kCompute);
    communication_ = in(OperationKind::kCommunication);
    exposed_ = Without(communication_, compute_);
    waits_ = Without(Joined(std::move(waits)), compute_);
    busy_ = Union(compute_, communication_);
    copies_ = Without(in(OperationKind::kCopy), busy_);
    busy_ = Union(busy_, copies_);
  }

  TimeParts In(Interval span) const {
    TimeParts parts;
    parts.duration_ns = span.length();
    parts.compute_ns = Length(compute_, span);
    parts.exposed_ns = Length(exposed_, span);
    parts.wait_ns = Length(waits_, span);
    parts.copy_ns = Length(copies_, span);
    parts.idle_ns = span.length() - Length(busy_, span);
    parts.communication_ns = Length(communication_, span);
    parts.overlap_ns = parts.communication_ns - parts.exposed_ns;
    for (const auto& [at, late] : late_)
      if (span.begin <= at && at < span.end) parts.late_ns += late;
    return parts;
  }

 private:
  Intervals compute_, communication_, exposed_, waits_, copies_, busy_;
  std::vector<std::pair<std::int64_t, std::int64_t>> late_;  // when the last one's kernel began, and how late
};

// A step lasts until the next one begins on the GPU, or where that is not the next number, until its own work ends.
std::vector<std::pair<std::int64_t, Interval>> StepsIn(const RankWork& work, Interval whole) {
  std::vector<std::pair<std::int64_t, Interval>> steps;
  absl::flat_hash_map<std::int64_t, std::size_t> place_of;
  for (const Work& one : work.all) {
    if (one.step == format::kNoStep) continue;
    const auto [found, fresh] = place_of.try_emplace(one.step, steps.size());
    if (fresh) steps.emplace_back(one.step, one.at);
    Interval& at = steps[found->second].second;
    at.end = std::max(at.end, one.at.end);
  }
  if (steps.empty()) return {{0, whole}};
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    const auto& [number, next] = steps[i + 1];
    Interval& at = steps[i].second;
    at.end = number == steps[i].first + 1 ? next.begin : std::min(at.end, next.begin);
  }
  return steps;
}

RankBreakdown Analyze(const RankWork& work, const RanByCall& ran) {
  RankBreakdown own;
  own.rank = work.rank;
  Interval whole{work.all.front().at.begin, work.all.front().at.end};
  for (const Work& one : work.all) whole.end = std::max(whole.end, one.at.end);
  const Timeline timeline(work, ran);
  own.began_ns = whole.begin;
  own.whole = timeline.In(whole);
  for (const auto& [number, span] : StepsIn(work, whole)) own.steps.push_back({number, span.begin, timeline.In(span)});
  return own;
}

}  // namespace

Breakdown BreakdownOf(const Recording& recording) {
  Breakdown breakdown;
  std::vector<RankWork> ranks;
  for (const ProcessRecording& process : recording.processes()) {
    if (!HasOperations(process)) continue;
    RankWork work = WorkOf(process, &breakdown.failures);
    if (!work.all.empty()) ranks.push_back(std::move(work));
  }
  std::stable_sort(ranks.begin(), ranks.end(), [](const RankWork& a, const RankWork& b) { return a.rank < b.rank; });
  const RanByCall ran = Match(ranks);
  for (const RankWork& work : ranks) breakdown.ranks.push_back(Analyze(work, ran));
  return breakdown;
}

}  // namespace ncclwatch::analyzer
