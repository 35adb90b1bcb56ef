#include <absl/container/flat_hash_map.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "analyzer/ideal/build.h"
#include "analyzer/ideal/names.h"
#include "analyzer/recording/meeting.h"
#include "analyzer/recording/whole.h"
#include "analyzer/steps/steps.h"
#include "analyzer/trace/facts.h"
#include "core/view/clocks.h"

namespace ncclwatch::analyzer::ideal {
namespace {

using reader::BoxImage;
using reader::Call;
using reader::OperationKind;

constexpr std::uint64_t kMostCalls = 10'000'000;
constexpr std::int64_t kClockSlack_ns = 20'000;  // between nodes whose clocks are kept together
constexpr char kCompute[] = "compute";

using Like = std::tuple<std::string, std::uint64_t, std::uint64_t>;

// One call as the host made it.
struct Made {
  const Call* call = nullptr;
  const reader::Communicator* on = nullptr;
  std::int64_t began_ns = 0, returned_ns = 0;  // on the clock of the job
  std::int64_t free_ns = 0;                    // until the next call of its lane: what it may last at most
  std::uint32_t step = 0;
  std::uint64_t program = 0;  // equal for ranks and steps that make the same calls; 0: no other makes them
  std::uint64_t place = 0;    // in its step
  bool posts = false;         // its effect is over when another call says so
};

// The calls of one rank in the order in which they were made, by lanes: threads of MPI; NCCL's calls enqueue, and
// whichever thread makes them, the program goes on.
std::vector<Made> CallsOf(const BoxImage& box, std::int64_t shift_ns) {
  std::vector<Made> made;
  for (const Call& call : box.calls) {
    const std::int64_t returned =
        call.returned_ns != 0 ? call.returned_ns : std::max(box.heartbeat_ns, call.entered_ns);
    made.push_back({&call, CommunicatorOf(box, call), call.entered_ns + shift_ns, returned + shift_ns});
  }
  std::stable_sort(made.begin(), made.end(), [](const Made& a, const Made& b) { return a.began_ns < b.began_ns; });
  absl::flat_hash_map<std::uint32_t, Made*> last;
  for (Made& one : made) {
    const std::uint32_t lane = functions::IsMpi(one.call->function) ? one.call->thread : 0;
    one.free_ns = std::max(box.heartbeat_ns + shift_ns, one.returned_ns);
    if (Made*& before = last[lane]; before != nullptr) before->free_ns = one.began_ns;
    last[lane] = &one;
    one.posts = (one.call->flags & (format::kRequest | format::kGrouped)) != 0;
  }
  return made;
}

// Computation is compared where the same calls surround it: stages of a pipeline make different ones.
void SetPrograms(std::vector<std::vector<Made>>* of_ranks) {
  absl::flat_hash_map<std::uint64_t, int> how_often;
  for (std::vector<Made>& made : *of_ranks) {
    absl::flat_hash_map<std::uint32_t, std::pair<std::uint64_t, std::uint64_t>> of_step;  // hash and calls so far
    for (Made& one : made) {
      auto& [hash, calls] = of_step[one.step];
      one.place = calls++;
      hash = format::Chain(hash,
                           static_cast<std::uint64_t>(one.call->function) << 48 ^ (one.call->count + one.call->bytes));
    }
    for (Made& one : made) one.program = of_step[one.step].first;
    for (const auto& [step, program] : of_step) ++how_often[program.first];
  }
  for (std::vector<Made>& made : *of_ranks)
    for (Made& one : made)
      if (how_often[one.program] < 2) one.program = 0;
}

class CallsToModel {
 public:
  explicit CallsToModel(Model* model) : model_(*model) {}

  void AddMeetings(const std::vector<Made>& made) {
    for (const Made& one : made) {
      if (one.on == nullptr) continue;
      const auto key = MeetingOf(*one.on, *one.call);
      if (!key) continue;
      const auto [found, fresh] = meeting_of_.try_emplace(*key, Meeting{model_.meetings, INT64_MIN, INT64_MAX});
      if (fresh) model_.Meet();
      Meeting& meeting = found->second;
      meeting.complete_ns = std::max(meeting.complete_ns, one.began_ns);
      if (one.call->kernel.clock != format::KernelClock::kNone)
        meeting.kernel_ns = std::min(meeting.kernel_ns, static_cast<std::int64_t>(one.call->kernel.ns));
    }
  }

  void Add(const std::vector<Made>& made, const Worker& worker) {
    worker_ = static_cast<std::uint32_t>(model_.workers.size());
    model_.workers.push_back(worker);
    occurrences_.clear();
    last_of_lane_.clear();
    posted_.clear();
    for (const Made& one : made) AddOne(one);
  }

 private:
  struct Meeting {
    std::uint32_t number;
    std::int64_t complete_ns;  // when the last one had begun
    std::int64_t kernel_ns;    // that the kernel of the last one took
    std::int64_t transfer_ns() const { return kernel_ns == INT64_MAX ? 0 : kernel_ns; }
  };
  struct Lane {
    std::uint32_t last = UINT32_MAX;  // operation
    std::int64_t ended_ns = 0;
  };

  const Meeting* MeetingWith(const Made& one) const {
    if (one.on == nullptr) return nullptr;
    const auto key = MeetingOf(*one.on, *one.call);
    if (!key) return nullptr;
    const auto found = meeting_of_.find(*key);
    return found == meeting_of_.end() ? nullptr : &found->second;
  }

  void AddOne(const Made& one) {
    const std::uint64_t lane = functions::IsMpi(one.call->function) ? one.call->thread : 0;
    const std::string op = OpText(one.call->function);
    Lane& on = last_of_lane_[lane];
    if (on.last != UINT32_MAX && one.began_ns > on.ended_ns) {
      const std::uint32_t gap = Append(kCompute, OperationKind::kCompute, on.ended_ns, one.began_ns, lane, one.step,
                                       LikeOfComputation(one, op));
      model_.before.Add(gap, on.last);
      on.last = gap;
    }
    std::vector<const Meeting*> awaited = AwaitedBy(one);
    const std::int64_t ended = EndOf(one, &awaited);
    const Like like = awaited.empty() ? Like{"own time of " + op, one.program, one.place}
                                      : Like{op, one.call->bytes + one.call->count, 0};
    const auto call = Append(op, awaited.empty() ? OperationKind::kCompute : OperationKind::kCommunication,
                             one.began_ns, ended, lane, one.step, like);
    if (on.last != UINT32_MAX) model_.before.Add(call, on.last);
    for (const Meeting* meeting : awaited) model_.waits_for.Add(call, meeting->number);
    if (const Meeting* own = MeetingWith(one)) model_.members.Add(own->number, call);
    on = {call, ended};
  }

  Like LikeOfComputation(const Made& before, const std::string& op) {
    if (before.program != 0) return {"before the same call", before.program, before.place};
    return {"before " + op, before.call->bytes + before.call->count, occurrences_[{before.step, op}]++};
  }

  // Of those it may have waited for; a request's by its wait, those of a group by the end of that.
  std::vector<const Meeting*> AwaitedBy(const Made& one) {
    std::vector<const Meeting*> awaited;
    const Meeting* own = MeetingWith(one);
    if (own != nullptr && !one.posts) awaited.push_back(own);
    if (own != nullptr && one.posts) {
      if ((one.call->flags & format::kGrouped) != 0) posted_[one.call->group].push_back(own);
      if ((one.call->flags & format::kRequest) != 0 && one.call->waiter != 0)
        waited_[{worker_, one.call->waiter}].push_back(own);
    }
    if (one.call->function == functions::Function::ncclGroupEnd && one.call->group != 0)
      if (auto group = posted_.find(one.call->group); group != posted_.end()) awaited = std::move(group->second);
    if (const auto waits = waited_.find({worker_, one.call->slot + 1}); waits != waited_.end())
      awaited.insert(awaited.end(), waits->second.begin(), waits->second.end());
    return awaited;
  }

  // What was over before the last one came did not wait for it. A call of NCCL returns at once: the program waited for
  // it as far as its next call came after the last one had come.
  static std::int64_t EndOf(const Made& one, std::vector<const Meeting*>* awaited) {
    const bool mpi = functions::IsMpi(one.call->function);
    const std::int64_t most = mpi ? one.returned_ns : std::max(one.free_ns, one.returned_ns);
    std::erase_if(*awaited, [&](const Meeting* meeting) { return meeting->complete_ns > most + kClockSlack_ns; });
    std::int64_t ended = one.returned_ns;
    if (mpi) return ended;
    for (const Meeting* meeting : *awaited)
      ended = std::max(ended, std::min(most, meeting->complete_ns + meeting->transfer_ns()));
    return ended;
  }

  std::uint32_t Append(const std::string& name, OperationKind kind, std::int64_t began_ns, std::int64_t ended_ns,
                       std::uint64_t lane, std::uint32_t step, const Like& like) {
    const std::uint32_t number = names_.Of(name);
    if (number == model_.names.size()) model_.names.push_back(name);
    Operation one;
    one.began_ns = began_ns;
    one.ended_ns = std::max(began_ns, ended_ns);
    one.name = number;
    one.like = likes_.Of(like);
    one.worker = worker_;
    one.step = step;
    one.lane = lane;
    one.kind = kind;
    model_.operations.push_back(one);
    return static_cast<std::uint32_t>(model_.operations.size() - 1);
  }

  Model& model_;
  std::uint32_t worker_ = 0;
  Numbers<std::string> names_;
  Numbers<Like> likes_;
  std::map<MeetingKey, Meeting> meeting_of_;
  absl::flat_hash_map<std::uint64_t, Lane> last_of_lane_;
  absl::flat_hash_map<std::pair<std::uint32_t, std::string>, std::uint64_t> occurrences_;  // by step and operation
  absl::flat_hash_map<std::uint64_t, std::vector<const Meeting*>> posted_;                 // by group
  absl::flat_hash_map<std::pair<std::uint32_t, std::uint64_t>, std::vector<const Meeting*>>
      waited_;  // worker, slot + 1
};

// Calls outside of all steps are left out, and those of a rank before its first one.
void SetSteps(const std::optional<JobSteps>& steps, int rank, std::vector<Made>* made) {
  if (!steps) return;
  const diagnosis::StepTable& table = steps->table;
  const auto row = std::find(table.ranks.begin(), table.ranks.end(), rank);
  if (row == table.ranks.end()) return made->clear();
  const auto& parts = table.parts[static_cast<std::size_t>(row - table.ranks.begin())];
  std::size_t step = 0;
  std::erase_if(*made, [&](Made& one) {
    const auto in = [&](const diagnosis::StepPart& part) {
      return part.first_slot <= one.call->slot && one.call->slot < part.end_slot;
    };
    // Calls come nearly in the order of their slots.
    if (!in(parts[step])) {
      const auto found = std::find_if(parts.begin(), parts.end(), in);
      if (found == parts.end()) return true;
      step = static_cast<std::size_t>(found - parts.begin());
    }
    one.step = static_cast<std::uint32_t>(step);
    return false;
  });
}

// A loop that was recognised only in a part of the job says nothing of the rest.
bool CoverMost(const JobSteps& steps, const std::vector<BoxImage>& boxes) {
  std::uint64_t all = 0, covered = 0;
  for (const BoxImage& box : boxes) all += box.calls.size();
  for (const auto& row : steps.table.parts)
    for (const diagnosis::StepPart& part : row) covered += part.end_slot - part.first_slot;
  return 2 * covered >= all;
}

void AlignBeginnings(Model* model) {
  std::int64_t began_ns = INT64_MAX;
  for (const Operation& one : model->operations) began_ns = std::min(began_ns, one.began_ns);
  std::vector<char> has_before(model->operations.size(), 0);
  for (const auto& [operation, before] : model->before.pairs()) has_before[operation] = 1;
  for (std::size_t i = 0; i < has_before.size(); ++i)
    if (!has_before[i]) model->operations[i].delay_ns = model->operations[i].began_ns - began_ns;
}

}  // namespace

absl::StatusOr<Model> ModelOfCalls(const Recording& recording) {
  auto boxes = WholeBoxes(recording, kMostCalls);
  if (!boxes.ok()) return boxes.status();
  std::optional<JobSteps> steps;
  if (auto found = StepsOf(*boxes); found.ok() && CoverMost(*found, *boxes)) steps = *std::move(found);
  const diagnosis::Clocks clocks(*boxes, boxes->empty() ? "" : boxes->front().boot_id);
  Model model;
  CallsToModel adding(&model);
  std::vector<std::vector<Made>> made;
  for (const BoxImage& box : *boxes) {
    made.push_back(CallsOf(box, clocks.ShiftOf(box)));
    SetSteps(steps, box.rank, &made.back());
    adding.AddMeetings(made.back());
  }
  SetPrograms(&made);
  for (std::size_t i = 0; i < boxes->size(); ++i)
    adding.Add(made[i], {(*boxes)[i].rank, (*boxes)[i].stage, (*boxes)[i].replica});
  if (model.operations.empty()) return absl::NotFoundError("has no calls to run again");
  if (steps)
    for (std::size_t step = 0; step < steps->table.steps(); ++step) model.steps.push_back(steps->table.NumberOf(step));
  else
    model.notes.push_back("no steps are found in the calls: the whole recording counts as one");
  if (model.steps.empty()) model.steps.push_back(0);
  AlignBeginnings(&model);
  Seal(&model);
  return model;
}

}  // namespace ncclwatch::analyzer::ideal
