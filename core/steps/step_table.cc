#include "core/steps/step_table.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/calls/mpi_message.h"
#include "core/steps/bursts.h"
#include "core/steps/step_count.h"
#include "core/steps/step_join.h"
#include "core/steps/steps.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Family;
using reader::Call;

class TableMaker {
 public:
  TableMaker(const View& view, std::size_t most_calls) : view_(view), most_calls_(most_calls), join_(view) {}

  void CutIntoSteps() {
    for (const Node& node : view_.nodes)
      if (node.rank >= 0) rows_.push_back({&node, NewestOf(node), {}});
    for (Row& row : rows_) row.steps = StepsIn(row);
    JoinBursts();
  }

  // Iterative solvers do more in each iteration than in the one before. Who comes last can be told all the same.
  void CutIntoStretches() {
    rows_.clear();
    for (const Node& node : view_.nodes)
      if (node.rank >= 0) rows_.push_back({&node, NewestOf(node), {}});
    const std::uint64_t largest = LargestMeeting();
    for (Row& row : rows_)
      for (std::size_t i = 0; i < row.history.calls.size(); ++i) {
        const Call& call = *row.history.calls[i];
        const CommView* const comm = call.position % kStretch == 0 ? MeetingOf(row, call) : nullptr;
        if (comm && comm->id == largest) row.steps.push_back({i, call.position / kStretch});
      }
    DropRowsWithoutSteps();
    join_.table().stretch = kStretch;
  }

  bool HasSteps() const { return rows_.size() >= 2; }

  StepTable Make() {
    if (rows_.size() < 2 || !SetRange()) return {};
    for (std::size_t row = 0; row < rows_.size(); ++row) FillRow(row);
    join_.table().messages = counter_.Take(rows_.size());
    return join_.Make();
  }

 private:
  struct Row {
    const Node* node = nullptr;
    History history;
    std::vector<NumberedStep> steps;
  };

  History NewestOf(const Node& node) const {
    History history = HistoryOf(view_, node);
    std::vector<const Call*>& calls = history.calls;
    if (calls.size() <= most_calls_) return history;
    calls.erase(calls.begin(), calls.end() - static_cast<std::ptrdiff_t>(most_calls_));
    history.whole = false;
    return history;
  }

  std::vector<NumberedStep> StepsIn(const Row& row) const {
    // What may be the layers of a first, long step is as good to see who is late.
    for (const Layers layers : {Layers::kAreNoSteps, Layers::kMayBeSteps})
      for (const bool counts : {true, false}) {
        std::vector<NumberedStep> steps =
            StepsOf(SymbolsOf(view_, *row.node, row.history.calls, counts), row.history.whole, layers);
        if (steps.size() >= 2) return steps;
      }
    return {};
  }

  // The communicator with the most members, and of those the one on which they meet most often.
  std::uint64_t LargestMeeting() const {
    std::map<std::uint64_t, std::size_t> counts;
    for (const Row& row : rows_)
      for (const Call* const call : row.history.calls)
        if (const CommView* const comm = MeetingOf(row, *call)) ++counts[comm->id];
    std::tuple<std::size_t, std::size_t, std::uint64_t> best;  // members, collectives, identity
    for (const auto& [id, count] : counts)
      best = std::max(best, std::make_tuple(view_.CommOf(id)->job_ranks.size(), count, id));
    return std::get<2>(best);
  }

  // Null: no members of a communicator meet in this call.
  const CommView* MeetingOf(const Row& row, const Call& call) const {
    if (IsMessage(call) || MeetsNobody(call)) return nullptr;
    const CommView* const comm = view_.CommOf(view_.process(*row.node), call.communicator, call.generation);
    return comm && comm->comparable && comm->job_ranks.size() > 1 ? comm : nullptr;
  }

  // The ranks have the same steps: most of them tell how many calls one is.
  void JoinBursts() {
    DropRowsWithoutSteps();
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> votes;
    for (const Row& row : rows_) {
      const Burst burst = BurstOf(row);
      ++votes[{burst.calls, burst.first}];
    }
    for (const auto& [burst, count] : votes) {
      if (2 * count <= rows_.size() || burst.first == 1) continue;
      for (Row& row : rows_) Join(burst.first, burst.second, &row.steps);
    }
    DropRowsWithoutSteps();
  }

  void DropRowsWithoutSteps() {
    std::erase_if(rows_, [](const Row& row) { return row.steps.size() < 2; });
  }

  static Burst BurstOf(const Row& row) {
    std::vector<CallTime> times;
    std::size_t of_one_call = 0;
    for (std::size_t i = 0; i < row.steps.size(); ++i) {
      const NumberedStep& step = row.steps[i];
      if (i > 0 && step.begin == row.steps[i - 1].begin + 1) ++of_one_call;
      times.push_back({step.number, row.history.calls[step.begin]->entered_ns});
    }
    return 2 * of_one_call > row.steps.size() ? FindBurst(times) : Burst();
  }

  static void Join(std::uint64_t calls, std::uint64_t first, std::vector<NumberedStep>* steps) {
    std::erase_if(*steps, [&](const NumberedStep& one) { return one.number % calls != first; });
    for (NumberedStep& one : *steps) one.number /= calls;
  }

  // Steps that most of the ranks have.
  bool SetRange() {
    std::vector<std::int64_t> firsts, ends;  // negative, so that the middle of `firsts` is the upper one of two
    for (const Row& row : rows_) {
      firsts.push_back(-static_cast<std::int64_t>(row.steps.front().number));
      ends.push_back(static_cast<std::int64_t>(row.steps.back().number));
    }
    const std::int64_t first = -Middle(std::move(firsts)), end = Middle(std::move(ends));
    if (end <= first) return false;
    first_ = static_cast<std::uint64_t>(first);
    steps_ = static_cast<std::size_t>(end - first);
    join_.table().first = first_;
    for (const Row& row : rows_) join_.AddRow(*row.node, steps_);
    return true;
  }

  void FillRow(std::size_t index) {
    const Row& row = rows_[index];
    const Process& process = view_.process(*row.node);
    const std::vector<NumberedStep>& steps = row.steps;
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
      if (steps[i].number < first_ || steps[i].number - first_ >= steps_) continue;
      if (steps[i + 1].number != steps[i].number + 1) continue;
      const auto step = static_cast<std::size_t>(steps[i].number - first_);
      const Call& first = *row.history.calls[steps[i].begin];
      const Call& next = *row.history.calls[steps[i + 1].begin];
      StepPart& part = join_.part(index, step);
      part.first_slot = first.slot;
      part.end_slot = next.slot;
      part.began_ns = process.At(first.entered_ns);
      part.duration_ns = next.entered_ns - first.entered_ns;
      for (std::size_t at = steps[i].begin; at < steps[i + 1].begin; ++at)
        AddCall(*row.history.calls[at], index, step, process);
    }
    AddUnit(grouper_.End(), index);
    CountStep(index);
    AddCompletions(index, process);
  }

  Arrival ArrivalOf(const Call& call, std::size_t row, std::size_t step, const Process& process) const {
    return {.row = row,
            .step = step,
            .entered_ns = process.At(call.entered_ns),
            .inside_ns = Blocks(call) ? InsideNs(call) : -1,
            .kernel_ns = KernelNs(call),
            .function = call.function,
            .bytes = BytesOf(call)};
  }

  void AddCall(const Call& call, std::size_t row, std::size_t step, const Process& process) {
    StepPart& part = join_.part(row, step);
    const CommView* const comm = view_.CommOf(process, call.communicator, call.generation);
    if (IsMessage(call)) {
      if (Blocks(call)) part.message_ns += InsideNs(call);
      const int peer = comm && call.root >= 0 ? view_.JobRank(*comm, static_cast<std::uint32_t>(call.root)) : -1;
      AddUnit(grouper_.Add(call, step, join_.RowOf(peer)), row);
      if (comm && !functions::IsMpi(call.function)) NoteMessage(call, row, step, process);
      return;
    }
    if (MeetsNobody(call) || !comm || !comm->comparable) return;
    if (Blocks(call)) part.exposed_ns += InsideNs(call);  // what of that is waiting, the meeting tells
    join_.AddCollective(comm->id, call.position, ArrivalOf(call, row, step, process));
  }

  // What all send to all at once is met like a collective; what else is sent makes one wait for the other.
  void AddUnit(const MessageUnit& unit, std::size_t index) {
    if (unit.id == 0) return;
    const Row& row = rows_[index];
    if (!unit.is_exchange() || functions::IsMpi(unit.first.function)) {
      for (const std::vector<std::size_t>* const peers : {&unit.to, &unit.from})
        for (const std::size_t peer : *peers) join_.AddPair(row.node->rank, rows_[peer].node->rank);
      if (unit.step != summed_) CountStep(index);
      summed_ = unit.step;
      return sum_.Add(unit);
    }
    const Process& process = view_.process(*row.node);
    const CommView* const comm = view_.CommOf(process, unit.first.communicator, unit.first.generation);
    if (!comm || !comm->comparable) return;
    Arrival arrival = ArrivalOf(unit.first, index, unit.step, process);
    arrival.kernel_ns = unit.kernel_ns;
    join_.AddExchange(comm->id, unit.position, arrival);
  }

  void CountStep(std::size_t row) { counter_.Count(row, std::exchange(sum_, {})); }

  void NoteMessage(const Call& call, std::size_t row, std::size_t step, const Process& process) {
    const std::vector<reader::Communicator>& all = process.box->communicators;
    const auto own = std::find_if(all.begin(), all.end(), [&](const reader::Communicator& one) {
      return one.index == call.communicator && one.generation == call.generation;
    });
    if (own == all.end() || call.root < 0) return;
    const auto peer = static_cast<std::uint32_t>(call.root);
    const bool sends = call.function == functions::Function::ncclSend;
    join_.AddMessage(own->id, sends ? own->rank : peer, sends ? peer : own->rank, call.position,
                     ArrivalOf(call, row, step, process));
  }

  // Waits for requests, and for messages to probe, are no part of a history.
  void AddCompletions(std::size_t row, const Process& process) {
    std::size_t step = 0;
    std::vector<StepPart>& parts = join_.table().parts[row];
    for (const Call& call : process.box->calls) {
      const functions::FunctionInfo* const info = functions::Find(call.function);
      if (!info || (info->family != Family::kCompletion && info->family != Family::kProbe) || !Blocks(call)) continue;
      const std::int64_t at_ns = process.At(call.entered_ns);
      while (step < parts.size() &&
             (parts[step].duration_ns == 0 || at_ns >= parts[step].began_ns + parts[step].duration_ns))
        ++step;
      if (step == parts.size()) return;
      if (at_ns >= parts[step].began_ns) parts[step].message_ns += InsideNs(call);
    }
  }

  const View& view_;
  const std::size_t most_calls_;
  StepJoin join_;
  MessageGrouper grouper_;
  StepMessageSum sum_;  // of the row's step `summed_`
  std::size_t summed_ = 0;
  MessageCounter counter_;
  std::vector<Row> rows_;
  std::uint64_t first_ = 0;
  std::size_t steps_ = 0;
};

}  // namespace

StepTable MakeStepTable(const View& view, std::size_t most_calls) {
  TableMaker maker(view, most_calls);
  maker.CutIntoSteps();
  if (!maker.HasSteps()) maker.CutIntoStretches();
  return maker.Make();
}

StepTable MakeStretchTable(const View& view, std::size_t most_calls) {
  TableMaker maker(view, most_calls);
  maker.CutIntoStretches();
  return maker.Make();
}

}  // namespace ncclwatch::diagnosis
