#include <absl/container/flat_hash_map.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "analyzer/ideal/build.h"
#include "analyzer/ideal/names.h"
#include "analyzer/recording/meeting.h"

namespace ncclwatch::analyzer::ideal {
namespace {

using reader::OperationKind;

constexpr std::uint64_t kNoStepNumber = 0;

// What meets what: numbers that the source gave, or the calls that the operations carry out.
using MeetingName = std::pair<std::uint64_t, MeetingKey>;

using CallMeetings = absl::flat_hash_map<std::uint64_t, MeetingKey>;  // by slot

struct StepWindow {
  std::int64_t begin_ns, end_ns, number;
};

class OperationsToModel {
 public:
  explicit OperationsToModel(Model* model) : model_(*model) {}

  absl::Status Add(const ProcessRecording& process) {
    std::vector<reader::Failure> failures;
    reader::Operations operations = process.OperationsOf(&failures);
    if (!failures.empty()) return absl::DataLossError(failures.front().path + ": " + failures.front().reason);
    const reader::BoxImage& box = process.process();
    const auto worker = static_cast<std::uint32_t>(model_.workers.size());
    model_.workers.push_back({process.rank(), box.stage, box.replica});
    if (!operations.ordered) AssignSteps(&operations);
    const CallMeetings meetings = MeetingsOf(process);
    const auto first = static_cast<std::uint32_t>(model_.operations.size());
    place_.assign(operations.all.size(), UINT32_MAX);
    for (std::size_t i = 0; i < operations.all.size(); ++i) {
      const reader::Operation& one = operations.all[i];
      if (one.kind == OperationKind::kStep) continue;
      place_[i] = static_cast<std::uint32_t>(model_.operations.size());
      AddOne(operations, one, worker, box.realtime_minus_monotonic_ns);
      Meet(one, meetings, place_[i]);
    }
    if (operations.ordered)
      OrderAsTold(operations);
    else
      OrderByTime(first);
    return absl::OkStatus();
  }

  void Finish() {
    model_.steps = steps_;
    if (model_.steps.empty()) model_.steps.push_back(kNoStepNumber);
  }

 private:
  static CallMeetings MeetingsOf(const ProcessRecording& process) {
    CallMeetings found;
    PieceReader pieces(process);
    std::vector<reader::Failure> ignored;
    for (Piece piece; pieces.Next(&piece, &ignored);)
      for (const reader::Call& call : piece.calls)
        if (call.communicator < piece.communicators.size())
          if (const auto meeting = MeetingOf(piece.communicators[call.communicator], call))
            found.emplace(call.slot, *meeting);
    return found;
  }

  static void AssignSteps(reader::Operations* operations) {
    std::vector<StepWindow> windows;
    for (const reader::Operation& one : operations->all)
      if (one.kind == OperationKind::kStep) windows.push_back({one.began_ns, one.began_ns + one.duration_ns, one.step});
    std::sort(windows.begin(), windows.end(), [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
    for (reader::Operation& one : operations->all) {
      if (one.kind == OperationKind::kStep || one.step != format::kNoStep) continue;
      auto after = std::upper_bound(windows.begin(), windows.end(), one.began_ns,
                                    [](std::int64_t at, const StepWindow& window) { return at < window.begin_ns; });
      if (after != windows.begin()) --after;
      if (after != windows.end()) one.step = after->number;
    }
  }

  std::uint32_t StepOf(std::int64_t number) {
    const auto known = static_cast<std::uint64_t>(std::max<std::int64_t>(number, 0));
    const auto [found, fresh] = step_of_.try_emplace(known, static_cast<std::uint32_t>(steps_.size()));
    if (fresh) steps_.push_back(known);
    return found->second;
  }

  void AddOne(const reader::Operations& operations, const reader::Operation& one, std::uint32_t worker,
              std::int64_t realtime_ns) {
    const std::string& name = operations.names[one.name];
    // Of programs that were not told apart by hand, the same kernel has other work at other places of a step.
    const std::uint64_t place =
        operations.ordered ? 0 : ++occurrences_[{worker, one.step, operations.names[one.like], one.bytes}];
    Operation& added = model_.operations.emplace_back();
    added.began_ns = one.began_ns + realtime_ns;
    added.ended_ns = added.began_ns + one.duration_ns;
    added.name = NameOf(name);
    added.like = likes_.Of({operations.names[one.like], one.bytes, place});
    added.worker = worker;
    added.step = StepOf(one.step);
    added.lane = one.lane;
    added.kind = one.kind;
  }

  std::uint32_t NameOf(const std::string& name) {
    const std::uint32_t number = names_.Of(name);
    if (number == model_.names.size()) model_.names.push_back(name);
    return number;
  }

  void Meet(const reader::Operation& one, const CallMeetings& meetings, std::uint32_t place) {
    MeetingName name{one.meets, {}};
    if (one.meets == 0) {
      const auto call = one.call == 0 ? meetings.end() : meetings.find(one.call - 1);
      if (call == meetings.end()) return;
      name.second = call->second;
    }
    const auto [found, fresh] = meeting_of_.try_emplace(name, model_.meetings);
    if (fresh) model_.Meet();
    model_.members.Add(found->second, place);
    model_.waits_for.Add(place, found->second);
  }

  void OrderAsTold(const reader::Operations& operations) {
    for (std::size_t i = 0; i < operations.all.size(); ++i)
      for (const std::uint32_t other : operations.all[i].after)
        if (place_[i] != UINT32_MAX && other < place_.size() && place_[other] != UINT32_MAX)
          model_.before.Add(place_[i], place_[other]);
  }

  // Operations of a lane one after another; besides, what ended last before one began, on any lane, let it begin. What
  // lies between is the host's.
  void OrderByTime(std::uint32_t first) {
    std::vector<std::uint32_t> by_begin(model_.operations.size() - first), by_end;
    std::iota(by_begin.begin(), by_begin.end(), first);
    by_end = by_begin;
    const auto& all = model_.operations;
    std::stable_sort(by_begin.begin(), by_begin.end(),
                     [&](auto a, auto b) { return all[a].began_ns < all[b].began_ns; });
    std::stable_sort(by_end.begin(), by_end.end(), [&](auto a, auto b) { return all[a].ended_ns < all[b].ended_ns; });
    absl::flat_hash_map<std::uint64_t, std::uint32_t> last_of_lane;
    std::size_t ended = 0;
    for (const std::uint32_t one : by_begin) {
      Operation& now = model_.operations[one];
      while (ended < by_end.size() && all[by_end[ended]].ended_ns <= now.began_ns) ++ended;
      std::int64_t free_ns = INT64_MIN;
      const auto wait = [&](std::uint32_t other) {
        if (other == one) return;
        model_.before.Add(one, other);
        free_ns = std::max(free_ns, all[other].ended_ns);
      };
      if (ended > 0) wait(by_end[ended - 1]);
      const auto [last, fresh] = last_of_lane.try_emplace(now.lane, one);
      if (!fresh && all[last->second].ended_ns <= now.began_ns) wait(last->second);
      last->second = one;
      now.delay_ns = free_ns == INT64_MIN ? INT64_MIN : now.began_ns - free_ns;
    }
  }

  Model& model_;
  Numbers<std::string> names_;
  Numbers<std::tuple<std::string, std::uint64_t, std::uint64_t>> likes_;
  absl::flat_hash_map<std::tuple<std::uint32_t, std::int64_t, std::string, std::uint64_t>, std::uint64_t> occurrences_;
  std::map<MeetingName, std::uint32_t> meeting_of_;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> step_of_;  // by number
  std::vector<std::uint64_t> steps_;
  std::vector<std::uint32_t> place_;  // in the model, of the operations of the process
};

// Those that wait for nothing begin when they did, after the first of all.
void SetFirstDelays(Model* model) {
  std::int64_t began_ns = INT64_MAX;
  for (const Operation& one : model->operations) began_ns = std::min(began_ns, one.began_ns);
  for (Operation& one : model->operations)
    if (one.delay_ns == INT64_MIN) one.delay_ns = one.began_ns - began_ns;
}

}  // namespace

bool HasOperations(const Recording& recording) {
  return std::any_of(recording.processes().begin(), recording.processes().end(),
                     [](const ProcessRecording& process) { return process.has_operations(); });
}

absl::StatusOr<Model> ModelOfOperations(const Recording& recording) {
  Model model;
  OperationsToModel adding(&model);
  std::vector<const ProcessRecording*> by_rank;
  for (const ProcessRecording& process : recording.processes()) by_rank.push_back(&process);
  std::stable_sort(by_rank.begin(), by_rank.end(), [](const auto* a, const auto* b) { return a->rank() < b->rank(); });
  for (const ProcessRecording* process : by_rank)
    if (const absl::Status status = adding.Add(*process); !status.ok()) return status;
  adding.Finish();
  if (model.operations.empty()) return absl::NotFoundError("has no operations to run again");
  SetFirstDelays(&model);
  Seal(&model);
  return model;
}

absl::StatusOr<Model> MakeModel(const Recording& recording) {
  return HasOperations(recording) ? ModelOfOperations(recording) : ModelOfCalls(recording);
}

}  // namespace ncclwatch::analyzer::ideal
