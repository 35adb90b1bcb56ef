#include "core/steps/step_join.h"

#include <algorithm>
#include <climits>
#include <unordered_set>

#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::diagnosis {
namespace {

// The clocks of two nodes agree so well, at best.
constexpr std::int64_t kClocksDiffer_ns = 2'000'000;

bool AreBlocking(const std::vector<Arrival>& arrivals) {
  return std::all_of(arrivals.begin(), arrivals.end(), [](const Arrival& one) { return one.inside_ns >= 0; });
}

// What one tells as a single call another one may tell in a sum.
bool AreAsMany(const std::vector<Arrival>& arrivals) {
  return std::all_of(arrivals.begin(), arrivals.end(),
                     [&](const Arrival& one) { return one.calls == arrivals.front().calls; });
}

// A root, or a sender, may be done before its data are there.
bool EndsWithItsData(functions::Function function) {
  using functions::Pattern;
  if (!functions::IsMpi(function)) return true;
  const Pattern pattern = functions::PatternOfMpi(function);
  return pattern == Pattern::kAllReduce || pattern == Pattern::kAllGather || pattern == Pattern::kReduceScatter ||
         pattern == Pattern::kAllToAll;
}

// Known once it is known of all: the last one to come waits for nobody.
std::int64_t TransferNs(const std::vector<Arrival>& arrivals) {
  std::int64_t least = INT64_MAX;
  for (const Arrival& one : arrivals) {
    const std::int64_t ns = one.kernel_ns >= 0 ? one.kernel_ns : one.calls == 1 ? one.inside_ns : -1;
    if (ns < 0) return 0;
    least = std::min(least, ns);
  }
  return least;
}

// The parts add up to the step.
void FitInto(StepPart& part) {
  std::int64_t left = part.duration_ns;
  for (std::int64_t* const one : {&part.wait_ns, &part.exposed_ns, &part.message_ns}) {
    *one = std::clamp<std::int64_t>(*one, 0, left);
    left -= *one;
  }
}

}  // namespace

std::int64_t Middle(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

StepJoin::StepJoin(const View& view) : view_(view) {
  for (const Process& process : view.processes) {
    const auto [clock, made] = clocks_.try_emplace(process.box->boot_id);
    if (made) clock->second.boot = static_cast<int>(clocks_.size());
    clock->second.agreed = clock->second.agreed || process.box->leader_state.job_minus_monotonic_ns != 0;
  }
}

void StepJoin::AddRow(const Node& node, std::size_t steps) {
  table_.ranks.push_back(node.rank);
  const reader::BoxImage& box = *view_.process(node).box;
  const std::string& name = box.node.empty() ? box.host : box.node;
  const auto [host, made] = hosts_.emplace(name, static_cast<int>(hosts_.size()));
  if (made) table_.host_names.push_back(name);
  table_.hosts.push_back(host->second);
  table_.rails.push_back(box.local_rank);
  clock_of_row_.push_back(clocks_.at(box.boot_id));
  table_.parts.emplace_back(steps);
  enqueued_.emplace_back(steps);
}

StepTable StepJoin::Make() {
  FindOccupied();
  for (const auto& [key, arrivals] : collectives_) {
    if (!AreAsMany(arrivals)) continue;
    AddComparable(key.communicator, arrivals);
    if (!timed_) continue;
    AddKernels(key.communicator, arrivals);
    if ((key.position & kExchange) == 0) AddTransfer(key.communicator, false, arrivals);
  }
  for (const auto& [key, arrivals] : messages_)
    if (timed_) AddTransfer(std::get<0>(key), true, arrivals);
  for (auto& [key, transfers] : transfers_) {
    std::sort(transfers.times.begin(), transfers.times.end(),
              [](const auto& a, const auto& b) { return std::tie(a.step, a.ns) < std::tie(b.step, b.ns); });
    table_.transfers.push_back(std::move(transfers));
  }
  AddEnqueued();
  for (std::vector<StepPart>& row : table_.parts) std::for_each(row.begin(), row.end(), FitInto);
  SetPeers();
  SetWork();
  return std::move(table_);
}

// Of requests: ranks wait for them elsewhere, and leave that wait at different times. Who comes to the next one later
// than the others without having been outside of calls for longer was kept by the data.
std::int64_t StepJoin::OwnExcessNs(std::size_t row, std::size_t step, const std::vector<std::int64_t>& usual_ns) const {
  std::int64_t most = 0;
  for (std::size_t one = step > 0 ? step - 1 : 0; one <= step; ++one)
    most = std::max(most, table_.parts[row][one].compute_ns() - usual_ns[one]);
  return most;
}

std::vector<std::int64_t> StepJoin::UsualComputeNs() const {
  std::vector<std::int64_t> usual_ns;
  for (std::size_t step = 0; step < table_.steps(); ++step) {
    std::vector<std::int64_t> all;
    for (const std::vector<StepPart>& row : table_.parts)
      if (row[step].duration_ns > 0) all.push_back(row[step].compute_ns());
    usual_ns.push_back(all.empty() ? 0 : Middle(std::move(all)));
  }
  return usual_ns;
}

// How long others waited bounds how late one was for them, too.
void StepJoin::AddEnqueued() {
  const std::vector<std::int64_t> usual_ns = UsualComputeNs();
  for (std::size_t step = 0; step < table_.steps(); ++step) {
    std::int64_t longest_ns = 0;
    for (std::size_t row = 0; row < enqueued_.size(); ++row)
      longest_ns = std::max(longest_ns, part(row, step).message_ns);
    for (std::size_t row = 0; row < enqueued_.size(); ++row) {
      Enqueued one = enqueued_[row][step];
      StepPart& its = part(row, step);
      if (one.requested) {
        one.late_ns = std::min({one.late_ns, longest_ns, OwnExcessNs(row, step, usual_ns)});
        one.wait_ns = std::min(one.wait_ns, its.message_ns);
        its.message_ns -= one.wait_ns;
      }
      its.late_ns += one.late_ns;
      its.wait_ns += one.wait_ns;
    }
  }
}

std::size_t StepJoin::RowOf(int rank) const {
  const auto found = std::lower_bound(table_.ranks.begin(), table_.ranks.end(), rank);
  return found == table_.ranks.end() || *found != rank ? SIZE_MAX
                                                       : static_cast<std::size_t>(found - table_.ranks.begin());
}

void StepJoin::AddTransfer(std::uint64_t communicator, bool is_message, const std::vector<Arrival>& arrivals) {
  const CommView* const comm = CommOf(communicator);
  if (!comm || arrivals.size() != (is_message ? 2 : comm->job_ranks.size())) return;
  const Arrival& first = arrivals.front();
  if (!EndsWithItsData(first.function)) return;
  std::vector<std::size_t> rows;
  for (const Arrival& one : arrivals) rows.push_back(one.row);
  std::sort(rows.begin(), rows.end());
  const functions::Function function = is_message ? functions::Function::ncclSend : first.function;
  StepTransfers& transfers = transfers_[{communicator, function, first.bytes, rows}];
  transfers.function = function;
  transfers.bytes = first.bytes;
  transfers.is_message = is_message;
  if (transfers.rows.empty()) transfers.rows = std::move(rows);
  transfers.calls += first.alike;
  if (const std::int64_t ns = TransferNs(arrivals); ns > 0) transfers.times.push_back({first.step, ns});
}

bool StepJoin::OnOneNode(const std::vector<Arrival>& arrivals) const {
  const int boot = clock_of_row_[arrivals.front().row].boot;
  return std::all_of(arrivals.begin(), arrivals.end(),
                     [&](const Arrival& one) { return clock_of_row_[one.row].boot == boot; });
}

// By arrival: later than the first one, give or take *doubt_ns.
std::vector<std::int64_t> StepJoin::LatenessOf(const std::vector<Arrival>& arrivals, std::int64_t* doubt_ns) const {
  const bool one_node = OnOneNode(arrivals), blocking = AreBlocking(arrivals);
  const bool by_inside = blocking && (!one_node || arrivals.front().calls > 1);
  std::vector<std::int64_t> late_ns;
  for (const Arrival& one : arrivals) late_ns.push_back(by_inside ? -one.inside_ns : one.entered_ns);
  const std::int64_t first = *std::min_element(late_ns.begin(), late_ns.end());
  for (std::int64_t& late : late_ns) late -= first;
  *doubt_ns = one_node || blocking ? 0 : kClocksDiffer_ns;
  return late_ns;
}

// Of calls that enqueue alone, on nodes whose leaders have agreed on no clock, those of each node.
void StepJoin::AddComparable(std::uint64_t communicator, const std::vector<Arrival>& arrivals) {
  const auto agreed = [&](const Arrival& one) { return clock_of_row_[one.row].agreed; };
  if (OnOneNode(arrivals) || AreBlocking(arrivals) || std::all_of(arrivals.begin(), arrivals.end(), agreed))
    return AddMeeting(communicator, arrivals);
  std::map<int, std::vector<Arrival>> nodes;
  for (const Arrival& one : arrivals) nodes[clock_of_row_[one.row].boot].push_back(one);
  for (const auto& [boot, of_node] : nodes) AddMeeting(communicator, of_node);
}

const CommView* StepJoin::CommOf(std::uint64_t id) {
  const auto [found, made] = comms_.try_emplace(id, nullptr);
  if (made) found->second = view_.CommOf(id);
  return found->second;
}

// Its members wait for messages of one another before they come to its collectives, as the stages of a pipeline do:
// who comes last says nothing.
bool StepJoin::IsChained(const CommView& comm) {
  const auto [found, made] = chained_.try_emplace(comm.id, false);
  if (!made) return found->second;
  const std::unordered_set<int> members(comm.job_ranks.begin(), comm.job_ranks.end());
  return found->second = std::any_of(members.begin(), members.end(), [&](int member) {
           auto pair = pairs_.lower_bound({member, INT_MIN});
           while (pair != pairs_.end() && pair->first == member && !members.contains(pair->second)) ++pair;
           return pair != pairs_.end() && pair->first == member;
         });
}

// Where ranks meet on one communicator only, none is kept by another one.
void StepJoin::FindOccupied() {
  const auto other = [&](const auto& one) {
    return one.first.communicator != collectives_.begin()->first.communicator;
  };
  if (std::none_of(collectives_.begin(), collectives_.end(), other)) return;
  occupied_.resize(table_.parts.size());
  for (const auto& [key, arrivals] : collectives_) {
    if (arrivals.size() < 2 || !AreBlocking(arrivals) || !AreAsMany(arrivals)) continue;
    if (arrivals.front().calls > 1) continue;  // a sum: when each of them was is not known
    std::int64_t doubt_ns = 0;
    const std::vector<std::int64_t> late_ns = LatenessOf(arrivals, &doubt_ns);
    const std::int64_t last = *std::max_element(late_ns.begin(), late_ns.end());
    const std::int64_t transfer_ns = TransferNs(arrivals);
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      const Arrival& one = arrivals[i];
      const std::int64_t inside_ns = std::min(one.inside_ns, last - late_ns[i] + transfer_ns);
      occupied_[one.row].push_back({one.entered_ns, one.entered_ns + inside_ns});
    }
  }
  for (std::vector<Interval>& row : occupied_)
    std::sort(row.begin(), row.end(), [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
}

// Of the time by which it came late: in it others kept it, or the network did.
std::int64_t StepJoin::OccupiedNs(const Arrival& arrival, std::int64_t late_ns) const {
  if (occupied_.empty() || arrival.inside_ns < 0) return 0;
  const std::vector<Interval>& row = occupied_[arrival.row];
  const std::int64_t from_ns = arrival.entered_ns - late_ns;
  auto at = std::lower_bound(row.begin(), row.end(), arrival.entered_ns,
                             [](const Interval& one, std::int64_t ns) { return one.begin_ns < ns; });
  std::int64_t sum = 0;
  while (at != row.begin() && (--at)->end_ns > from_ns)
    sum += std::max<std::int64_t>(0, std::min(at->end_ns, arrival.entered_ns) - std::max(at->begin_ns, from_ns));
  return std::min(sum, late_ns);
}

void StepJoin::AddMeeting(std::uint64_t communicator, const std::vector<Arrival>& arrivals) {
  if (arrivals.size() < 2) return;
  const CommView* const comm = CommOf(communicator);
  const bool chained = comm && IsChained(*comm);
  std::int64_t doubt_ns = 0;
  const std::vector<std::int64_t> late_ns = LatenessOf(arrivals, &doubt_ns);
  const std::int64_t last = *std::max_element(late_ns.begin(), late_ns.end());
  std::vector<std::int64_t> own_late_ns;
  for (std::size_t i = 0; i < arrivals.size(); ++i)
    own_late_ns.push_back(late_ns[i] - OccupiedNs(arrivals[i], late_ns[i]));
  const std::int64_t middle = Middle(own_late_ns);
  auto& late_on = late_on_[communicator];
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    std::int64_t late = chained ? 0 : own_late_ns[i] - middle;
    late = late > 0 ? std::max<std::int64_t>(0, late - doubt_ns) : late;
    std::vector<std::int64_t>& among_peers = late_on[arrivals[i].row].late_ns;
    among_peers.resize(table_.steps());
    AddLate(arrivals[i], late, last - late_ns[i], &among_peers[arrivals[i].step]);
  }
}

void StepJoin::AddLate(const Arrival& arrival, std::int64_t late_ns, std::int64_t wait_ns, std::int64_t* among_peers) {
  StepPart& its = part(arrival.row, arrival.step);
  const auto later = [](std::int64_t a, std::int64_t b) { return std::abs(a) > std::abs(b) ? a : b; };
  if (arrival.inside_ns >= 0) {
    const std::int64_t waited = std::min(wait_ns, arrival.inside_ns);
    its.wait_ns += waited;
    its.exposed_ns -= waited;
    its.late_ns += late_ns;
    *among_peers += late_ns;
  } else {
    Enqueued& enqueued = enqueued_[arrival.row][arrival.step];
    enqueued.requested = enqueued.requested || functions::IsMpi(arrival.function);
    enqueued.late_ns = later(late_ns, enqueued.late_ns);
    enqueued.wait_ns = std::max(enqueued.wait_ns, wait_ns);
    *among_peers = later(late_ns, *among_peers);
  }
}

// Of one collective that is timed on all members the kernel that ran the shortest time was the last to begin.
void StepJoin::AddKernels(std::uint64_t communicator, const std::vector<Arrival>& arrivals) {
  const CommView* const comm = CommOf(communicator);
  if (arrivals.size() < 2 || !comm || arrivals.size() != comm->job_ranks.size()) return;
  std::vector<std::int64_t> ran_ns;
  for (const Arrival& one : arrivals)
    if (one.kernel_ns >= 0) ran_ns.push_back(one.kernel_ns);
  if (ran_ns.size() != arrivals.size()) return;
  const std::int64_t transfer = *std::min_element(ran_ns.begin(), ran_ns.end());
  std::vector<std::int64_t> early_ns;  // so that the middle of the late ones is the lower one of two
  for (const std::int64_t ns : ran_ns) early_ns.push_back(-ns);
  const std::int64_t middle = -Middle(std::move(early_ns));
  auto& late_on = late_on_[communicator];
  for (const Arrival& one : arrivals) {
    const std::int64_t late = IsChained(*comm) ? 0 : middle - one.kernel_ns;
    StepPart& its = part(one.row, one.step);
    its.kernel_late_ns += late;
    its.kernel_wait_ns += one.kernel_ns - transfer;
    ++its.timed;
    std::vector<std::int64_t>& among_peers = late_on[one.row].kernel_late_ns;
    among_peers.resize(table_.steps());
    among_peers[one.step] += late;
  }
}

// Of one rank that tells it: the others work on as much.
void StepJoin::SetWork() {
  for (std::size_t row = 0; row < table_.ranks.size() && table_.work.empty(); ++row) {
    const auto node = view_.node_of_rank.find(table_.ranks[row]);
    if (node == view_.node_of_rank.end()) continue;
    const Process& process = view_.process(view_.nodes[static_cast<std::size_t>(node->second)]);
    const std::vector<StepPart>& parts = table_.parts[row];
    std::size_t step = 0;
    for (const reader::Note& note : process.box->notes) {
      if (note.kind != format::NoteKind::kMetric || note.name != "tokens") continue;
      table_.work.resize(table_.steps());
      const std::int64_t at_ns = process.At(note.at_ns);
      while (step < parts.size() && at_ns >= parts[step].began_ns + parts[step].duration_ns) ++step;
      if (step == parts.size()) return;
      if (at_ns >= parts[step].began_ns) table_.work[step] += note.value;
    }
  }
}

void StepJoin::SetPeers() {
  for (auto& [communicator, late] : late_on_) {
    StepPeers peers;
    for (const auto& [row, late_ns] : late) peers.rows.push_back(row);
    std::sort(peers.rows.begin(), peers.rows.end());
    for (const std::size_t row : peers.rows) {
      LateOn& own = late.at(row);
      own.late_ns.resize(table_.steps());
      own.kernel_late_ns.resize(table_.steps());
      peers.late_ns.push_back(std::move(own.late_ns));
      peers.kernel_late_ns.push_back(std::move(own.kernel_late_ns));
    }
    table_.peers.push_back(std::move(peers));
  }
}

}  // namespace ncclwatch::diagnosis
