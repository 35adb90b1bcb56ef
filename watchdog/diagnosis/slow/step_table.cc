#include "watchdog/diagnosis/slow/step_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ncclwatch/functions/pattern.h"
#include "watchdog/diagnosis/compare/step_count.h"
#include "watchdog/diagnosis/compare/steps.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Family;
using reader::Call;

// The clocks of two nodes agree so well, at best.
constexpr std::int64_t kClocksDiffer_ns = 2'000'000;

bool Blocks(const Call& call) {
  return functions::IsMpi(call.function) && call.returned_ns != 0 && (call.flags & format::kRequest) == 0;
}

std::int64_t InsideNs(const Call& call) { return std::max<std::int64_t>(0, call.returned_ns - call.entered_ns); }

// One member's arrival at a collective.
struct Arrival {
  std::size_t row = 0;   // of the table
  std::size_t step = 0;  // number - first
  std::int64_t entered_ns = 0;
  std::int64_t inside_ns = -1;  // of blocking calls
  const Call* call = nullptr;
  const std::string* boot_id = nullptr;
};

bool OnOneNode(const std::vector<Arrival>& arrivals) {
  return std::all_of(arrivals.begin(), arrivals.end(),
                     [&](const Arrival& one) { return *one.boot_id == *arrivals.front().boot_id; });
}

bool AreBlocking(const std::vector<Arrival>& arrivals) {
  return std::all_of(arrivals.begin(), arrivals.end(), [](const Arrival& one) { return one.inside_ns >= 0; });
}

struct Lateness {
  std::vector<std::int64_t> late_ns;  // by arrival: later than the first one
  std::int64_t doubt_ns = 0;
};

Lateness LatenessOf(const std::vector<Arrival>& arrivals) {
  const bool one_node = OnOneNode(arrivals), blocking = AreBlocking(arrivals);
  Lateness lateness;
  for (const Arrival& one : arrivals)
    lateness.late_ns.push_back(!one_node && blocking ? -one.inside_ns : one.entered_ns);
  const std::int64_t first = *std::min_element(lateness.late_ns.begin(), lateness.late_ns.end());
  for (std::int64_t& late : lateness.late_ns) late -= first;
  if (!one_node && !blocking) lateness.doubt_ns = kClocksDiffer_ns;
  return lateness;
}

// The lower one of two.
std::int64_t Middle(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class TableMaker {
 public:
  TableMaker(const View& view, std::size_t most_calls) : view_(view), most_calls_(most_calls) {
    for (const Process& process : view.processes)
      if (process.box->leader_state.job_minus_monotonic_ns != 0) agreed_.insert(process.box->boot_id);
  }

  StepTable Make() {
    for (std::size_t node = 0; node < view_.nodes.size(); ++node) CutIntoSteps(view_.nodes[node]);
    if (rows_.size() < 2 || !SetRange()) return {};
    for (std::size_t row = 0; row < rows_.size(); ++row) FillRow(row);
    for (const auto& [key, arrivals] : meetings_) AddComparable(key.communicator, arrivals);
    for (const auto& [key, arrivals] : meetings_) AddTransfer(key.communicator, false, arrivals);
    for (const auto& [key, arrivals] : kernels_of_messages_) AddTransfer(std::get<0>(key), true, arrivals);
    for (auto& [key, transfers] : transfers_) {
      std::sort(transfers.times.begin(), transfers.times.end(),
                [](const auto& a, const auto& b) { return std::tie(a.step, a.ns) < std::tie(b.step, b.ns); });
      table_.transfers.push_back(std::move(transfers));
    }
    for (const auto& [at, late_and_wait] : enqueued_) {
      StepPart& part = table_.parts[at.first][at.second];
      part.late_ns += late_and_wait.first;
      part.wait_ns += late_and_wait.second;
    }
    for (std::vector<StepPart>& row : table_.parts) std::for_each(row.begin(), row.end(), FitInto);
    SetPeers();
    return std::move(table_);
  }

 private:
  struct Row {
    const Node* node = nullptr;
    History history;
    std::vector<NumberedStep> steps;
  };

  void CutIntoSteps(const Node& node) {
    if (node.rank < 0) return;
    Row row{&node, HistoryOf(view_, node), {}};
    std::vector<const Call*>& calls = row.history.calls;
    if (calls.size() > most_calls_) {
      calls.erase(calls.begin(), calls.end() - static_cast<std::ptrdiff_t>(most_calls_));
      row.history.whole = false;
    }
    // What may be the layers of a first, long step is as good to see who is late.
    for (const Layers layers : {Layers::kAreNoSteps, Layers::kMayBeSteps})
      for (const bool counts : {true, false})
        if (row.steps.size() < 2) row.steps = StepsOf(SymbolsOf(view_, node, calls, counts), row.history.whole, layers);
    if (row.steps.size() >= 2) rows_.push_back(std::move(row));
  }

  // Steps that most of the ranks have.
  bool SetRange() {
    std::vector<std::int64_t> firsts, ends;
    for (const Row& row : rows_) {
      firsts.push_back(static_cast<std::int64_t>(row.steps.front().number));
      ends.push_back(static_cast<std::int64_t>(row.steps.back().number));
    }
    const std::int64_t first = Middle(std::move(firsts)), end = Middle(std::move(ends));
    if (end <= first) return false;
    table_.first = static_cast<std::uint64_t>(first);
    std::map<std::string, int> hosts;
    for (const Row& row : rows_) {
      table_.ranks.push_back(row.node->rank);
      const reader::BoxImage& box = *view_.process(*row.node).box;
      const std::string& name = box.node.empty() ? box.host : box.node;
      const auto [host, made] = hosts.emplace(name, static_cast<int>(hosts.size()));
      if (made) table_.host_names.push_back(name);
      table_.hosts.push_back(host->second);
      table_.rails.push_back(box.local_rank);
      table_.parts.emplace_back(static_cast<std::size_t>(end - first));
    }
    return true;
  }

  void FillRow(std::size_t index) {
    const Row& row = rows_[index];
    const Process& process = view_.process(*row.node);
    const std::vector<NumberedStep>& steps = row.steps;
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
      if (steps[i].number < table_.first || steps[i].number - table_.first >= table_.steps()) continue;
      if (steps[i + 1].number != steps[i].number + 1) continue;
      const auto step = static_cast<std::size_t>(steps[i].number - table_.first);
      const Call& first = *row.history.calls[steps[i].begin];
      const Call& next = *row.history.calls[steps[i + 1].begin];
      StepPart& part = table_.parts[index][step];
      part.first_slot = first.slot;
      part.end_slot = next.slot;
      part.began_ns = process.At(first.entered_ns);
      part.duration_ns = next.entered_ns - first.entered_ns;
      for (std::size_t at = steps[i].begin; at < steps[i + 1].begin; ++at)
        AddCall(*row.history.calls[at], index, step, process);
    }
    AddCompletions(index, process);
  }

  void AddCall(const Call& call, std::size_t row, std::size_t step, const Process& process) {
    StepPart& part = table_.parts[row][step];
    const CommView* const comm = view_.CommOf(process, call.communicator, call.generation);
    if (IsMessage(call)) {
      if (Blocks(call)) part.idle_ns += InsideNs(call);
      if (comm && call.root >= 0)
        messages_.emplace(table_.ranks[row], view_.JobRank(*comm, static_cast<std::uint32_t>(call.root)));
      if (comm && !functions::IsMpi(call.function)) NoteMessage(call, row, step, process);
      return;
    }
    if ((call.flags & (format::kEmpty | format::kOneRank | format::kRequest)) != 0) return;
    if (!comm || !comm->comparable) return;
    if (Blocks(call)) part.exposed_ns += InsideNs(call);  // what of that is waiting, the meeting tells
    meetings_[{comm->id, call.position}].push_back(
        {row, step, process.At(call.entered_ns), Blocks(call) ? InsideNs(call) : -1, &call, &process.box->boot_id});
  }

  // Both sides of a message of NCCL have the same position.
  void NoteMessage(const Call& call, std::size_t row, std::size_t step, const Process& process) {
    const std::vector<reader::Communicator>& all = process.box->communicators;
    const auto own = std::find_if(all.begin(), all.end(), [&](const reader::Communicator& one) {
      return one.index == call.communicator && one.generation == call.generation;
    });
    if (own == all.end() || call.root < 0) return;
    const auto peer = static_cast<std::uint32_t>(call.root);
    const bool sends = call.function == functions::Function::ncclSend;
    kernels_of_messages_[{own->id, sends ? own->rank : peer, sends ? peer : own->rank, call.position}].push_back(
        {row, step, process.At(call.entered_ns), -1, &call, &process.box->boot_id});
  }

  // A root, or a sender, may be done before its data are there.
  static bool EndsWithItsData(functions::Function function) {
    using functions::Pattern;
    if (!functions::IsMpi(function)) return true;
    const Pattern pattern = functions::PatternOfMpi(function);
    return pattern == Pattern::kAllReduce || pattern == Pattern::kAllGather || pattern == Pattern::kReduceScatter ||
           pattern == Pattern::kAllToAll;
  }

  // Known once it is known of all: the last one to come waits for nobody.
  static std::int64_t TransferNs(const std::vector<Arrival>& arrivals) {
    std::int64_t least = INT64_MAX;
    for (const Arrival& one : arrivals) {
      const bool timed = one.call->kernel.clock != format::KernelClock::kNone;
      if (!timed && one.inside_ns < 0) return 0;
      least = std::min(least, timed ? static_cast<std::int64_t>(one.call->kernel.ns) : one.inside_ns);
    }
    return least;
  }

  void AddTransfer(std::uint64_t communicator, bool is_message, const std::vector<Arrival>& arrivals) {
    const CommView* const comm = view_.CommOf(communicator);
    if (!comm || arrivals.size() != (is_message ? 2 : comm->job_ranks.size())) return;
    const Call& call = *arrivals.front().call;
    if (!EndsWithItsData(call.function)) return;
    const std::uint64_t bytes =
        functions::IsMpi(call.function) ? call.bytes : call.count * functions::DatatypeBytes(call.dtype);
    std::vector<std::size_t> rows;
    for (const Arrival& one : arrivals) rows.push_back(one.row);
    std::sort(rows.begin(), rows.end());
    const functions::Function function = is_message ? functions::Function::ncclSend : call.function;
    StepTransfers& transfers = transfers_[{communicator, function, bytes, rows}];
    transfers.function = function;
    transfers.bytes = bytes;
    transfers.is_message = is_message;
    if (transfers.rows.empty()) transfers.rows = std::move(rows);
    ++transfers.calls;
    if (const std::int64_t ns = TransferNs(arrivals); ns > 0) transfers.times.push_back({arrivals.front().step, ns});
  }

  // Waits for requests, and for messages to probe, are no part of a history.
  void AddCompletions(std::size_t row, const Process& process) {
    std::size_t step = 0;
    std::vector<StepPart>& parts = table_.parts[row];
    for (const Call& call : process.box->calls) {
      const functions::FunctionInfo* const info = functions::Find(call.function);
      if (!info || (info->family != Family::kCompletion && info->family != Family::kProbe) || !Blocks(call)) continue;
      const std::int64_t at_ns = process.At(call.entered_ns);
      while (step < parts.size() &&
             (parts[step].duration_ns == 0 || at_ns >= parts[step].began_ns + parts[step].duration_ns))
        ++step;
      if (step == parts.size()) return;
      if (at_ns >= parts[step].began_ns) parts[step].idle_ns += InsideNs(call);
    }
  }

  // Of calls that enqueue alone, on nodes whose leaders have agreed on no clock, those of each node.
  void AddComparable(std::uint64_t communicator, const std::vector<Arrival>& arrivals) {
    const auto agreed = [&](const Arrival& one) { return agreed_.contains(*one.boot_id); };
    if (OnOneNode(arrivals) || AreBlocking(arrivals) || std::all_of(arrivals.begin(), arrivals.end(), agreed))
      return AddMeeting(communicator, arrivals);
    std::map<std::string_view, std::vector<Arrival>> nodes;
    for (const Arrival& one : arrivals) nodes[*one.boot_id].push_back(one);
    for (const auto& [boot_id, of_node] : nodes) AddMeeting(communicator, of_node);
  }

  // Its members wait for messages of one another before they come to its collectives, as the stages of a pipeline do:
  // who comes last says nothing.
  bool IsChained(std::uint64_t communicator) {
    const auto [found, made] = chained_.try_emplace(communicator, false);
    if (!made) return found->second;
    const CommView* const comm = view_.CommOf(communicator);
    const std::unordered_set<int> members(comm->job_ranks.begin(), comm->job_ranks.end());
    return found->second = std::any_of(messages_.begin(), messages_.end(), [&](const auto& pair) {
             return members.contains(pair.first) && members.contains(pair.second);
           });
  }

  void AddMeeting(std::uint64_t communicator, const std::vector<Arrival>& arrivals) {
    if (arrivals.size() < 2) return;
    const bool chained = IsChained(communicator);
    const Lateness lateness = LatenessOf(arrivals);
    const std::int64_t last = *std::max_element(lateness.late_ns.begin(), lateness.late_ns.end());
    const std::int64_t middle = Middle(lateness.late_ns);
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      const Arrival& arrival = arrivals[i];
      StepPart& part = table_.parts[arrival.row][arrival.step];
      const std::int64_t wait = last - lateness.late_ns[i];
      std::int64_t late = chained ? 0 : lateness.late_ns[i] - middle;
      late = late > 0 ? std::max<std::int64_t>(0, late - lateness.doubt_ns) : late;
      std::int64_t& among_peers = late_on_[communicator].try_emplace({arrival.row, arrival.step}).first->second;
      if (arrival.inside_ns >= 0)
        among_peers += late;
      else if (std::abs(late) > std::abs(among_peers))
        among_peers = late;
      if (arrival.inside_ns >= 0) {
        const std::int64_t waited = std::min(wait, arrival.inside_ns);
        part.wait_ns += waited;
        part.exposed_ns -= waited;
        part.late_ns += late;
      } else {
        auto& [most, wait_then] = enqueued_[{arrival.row, arrival.step}];
        if (std::abs(late) > std::abs(most)) most = late;
        wait_then = std::max(wait_then, wait);
      }
    }
  }

  void SetPeers() {
    for (const auto& [communicator, late] : late_on_) {
      StepPeers peers;
      for (const auto& [at, late_ns] : late) {
        if (peers.rows.empty() || peers.rows.back() != at.first) {
          peers.rows.push_back(at.first);
          peers.late_ns.emplace_back(table_.steps());
        }
        peers.late_ns.back()[at.second] = late_ns;
      }
      table_.peers.push_back(std::move(peers));
    }
  }

  // The parts add up to the step.
  static void FitInto(StepPart& part) {
    std::int64_t left = part.duration_ns;
    for (std::int64_t* const one : {&part.wait_ns, &part.exposed_ns, &part.idle_ns}) {
      *one = std::clamp<std::int64_t>(*one, 0, left);
      left -= *one;
    }
  }

  struct Key {
    std::uint64_t communicator = 0, position = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const { return format::Mix(key.communicator, key.position); }
  };

  const View& view_;
  const std::size_t most_calls_;
  std::set<std::string, std::less<>> agreed_;        // boots whose clock the job's leaders know
  std::set<std::pair<int, int>> messages_;           // job ranks, from either side
  std::unordered_map<std::uint64_t, bool> chained_;  // by communicator
  std::vector<Row> rows_;
  StepTable table_;
  std::unordered_map<Key, std::vector<Arrival>, KeyHash> meetings_;
  // Communicator, ranks in it from and to, position.
  std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::uint64_t>, std::vector<Arrival>>
      kernels_of_messages_;
  std::map<std::tuple<std::uint64_t, functions::Function, std::uint64_t, std::vector<std::size_t>>, StepTransfers>
      transfers_;
  using At = std::pair<std::size_t, std::size_t>;                 // row, step
  std::map<At, std::pair<std::int64_t, std::int64_t>> enqueued_;  // late, wait
  std::map<std::uint64_t, std::map<At, std::int64_t>> late_on_;   // by communicator
};

}  // namespace

StepTable MakeStepTable(const View& view, std::size_t most_calls) { return TableMaker(view, most_calls).Make(); }

}  // namespace ncclwatch::diagnosis
