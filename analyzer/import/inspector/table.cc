#include "analyzer/import/inspector/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/import/inspector/clocks.h"
#include "analyzer/import/inspector/instants.h"
#include "analyzer/import/inspector/joined.h"
#include "analyzer/import/inspector/messages.h"
#include "analyzer/import/inspector/operation.h"
#include "analyzer/import/inspector/places.h"
#include "analyzer/import/inspector/ranks.h"
#include "analyzer/import/inspector/read.h"
#include "core/reader/box.h"
#include "core/slow/robust.h"
#include "core/steps/step_count.h"
#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::analyzer::import::inspector {
namespace {

using diagnosis::StepPart;
using diagnosis::StepTable;
using diagnosis::StepTransfers;

constexpr std::size_t kSmoothedSteps = 5;  // on either side

std::int64_t TimeIn(const std::vector<Operation>& operations) {
  std::int64_t sum = 0;
  for (const Operation& one : operations) sum += one.kernel_ns;
  return sum;
}

class TableMaker {
 public:
  TableMaker(const Recording& recording, const Ranks& ranks) : ranks_(ranks) {
    for (const auto& [member, operations] : recording.operations) {
      const auto row = ranks.row_of.find(member);
      if (row == ranks.row_of.end()) continue;
      Joined& joined = joined_[{member.communicator, member.size}];
      joined.size = member.size;
      joined.members[row->second] = &operations;
      joined.row_of[member.rank] = row->second;
    }
    for (const auto& [key, joined] : joined_) {
      const Messages& messages = messages_.emplace(&joined, joined).first->second;
      if (!messages.is_exchange()) chains_.merge(messages.Pairs());
    }
  }

  StepTable Make() {
    SetRanks();
    if (!SetSteps()) return {};
    SetPlaces();
    for (const auto& [key, joined] : joined_) AddCommunicator(joined);
    for (auto& row : table_.parts)
      for (std::size_t step = 0; step < row.size(); ++step) FitInto(step, &row[step]);
    return std::move(table_);
  }
  bool timed() const { return timing_ != Timing::kNone; }
  std::size_t incomplete() const { return incomplete_; }

 private:
  void SetRanks() {
    std::map<std::string, int> hosts;
    for (const reader::BoxImage& box : ranks_.boxes) {
      table_.ranks.push_back(box.rank);
      const auto [host, made] = hosts.emplace(box.host, static_cast<int>(hosts.size()));
      if (made) table_.host_names.push_back(box.host);
      table_.hosts.push_back(host->second);
    }
    SetRails();
  }

  // Inspector does not tell a GPU's number; ranks of a host count upwards. Where one was not recorded, the others have
  // the number of the ranks with which they share communicators of one rank a host.
  void SetRails() {
    std::vector<int> on_host(table_.host_names.size());
    for (const int host : table_.hosts) table_.rails.push_back(on_host[static_cast<std::size_t>(host)]++);
    const auto most = std::max_element(on_host.begin(), on_host.end());
    const auto lacks = [&](std::size_t row) { return on_host[static_cast<std::size_t>(table_.hosts[row])] < *most; };
    std::map<std::size_t, std::set<int>> shared;  // numbers, by the rows whose own is not known
    for (const auto& [key, joined] : joined_) {
      std::set<int> hosts, rails;
      for (const auto& [row, operations] : joined.members) {
        hosts.insert(table_.hosts[row]);
        if (!lacks(row)) rails.insert(table_.rails[row]);
      }
      if (hosts.size() < joined.members.size()) continue;
      for (const auto& [row, operations] : joined.members)
        if (lacks(row)) shared[row].insert(rails.begin(), rails.end());
    }
    for (std::size_t row = 0; row < table_.rails.size(); ++row)
      if (lacks(row)) table_.rails[row] = shared[row].size() == 1 ? *shared[row].begin() : -1;
  }

  // By the communicator in which most of the time goes, and which repeats itself.
  bool SetSteps() {
    std::vector<const Joined*> by_time;
    for (const auto& [key, joined] : joined_) by_time.push_back(&joined);
    std::stable_sort(by_time.begin(), by_time.end(),
                     [](const auto* a, const auto* b) { return TimeIn(a->first()) > TimeIn(b->first()); });
    for (const Joined* const joined : by_time)
      if (SetStepsBy(joined->first())) {
        reference_ = joined;
        ahead_ns_ = ClocksAhead(by_time, table_.hosts, table_.hosts[joined->members.begin()->first], timing_);
        return true;
      }
    return false;
  }

  bool SetStepsBy(const std::vector<Operation>& all) {
    std::vector<Operation> operations;
    std::copy_if(all.begin(), all.end(), std::back_inserter(operations),
                 [](const auto& one) { return !one.is_message; });
    timing_ = TimingOf(operations);
    const std::vector<std::int64_t> at_ns = InstantsOf(operations, timing_);
    std::vector<diagnosis::Symbol> symbols;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const auto function = static_cast<std::uint64_t>(operations[i].function);
      symbols.push_back({.call = format::Mix(function, operations[i].bytes),
                         .communicator = 1,
                         .at_ns = at_ns[i],
                         .counter = function,
                         .position = operations[i].number});
    }
    std::vector<diagnosis::NumberedStep> steps = diagnosis::StepsOf(symbols, false, diagnosis::Layers::kMayBeSteps);
    if (steps.size() < 2) return false;
    table_.first = steps.front().number;
    smoothed_ = timing_ == Timing::kWritten || operations.size() < 2 * steps.size();
    // Between two operations: what other communicators did together with the first one belongs to the step as well.
    for (const diagnosis::NumberedStep& step : steps)
      begins_.push_back(step.begin == 0 ? at_ns.front() : std::midpoint(at_ns[step.begin - 1], at_ns[step.begin]));
    table_.parts.assign(table_.ranks.size(), std::vector<StepPart>(begins_.size() - 1));
    return true;
  }

  // Of instants on the clock of that row: the step, and how much of it is over.
  std::vector<double> PlacesAt(std::size_t row, const std::vector<std::int64_t>& at_ns) const {
    const auto steps = static_cast<double>(begins_.size() - 1);
    const double usual_ns = std::max(1.0, static_cast<double>(begins_.back() - begins_.front()) / steps);
    std::vector<double> places;
    for (const std::int64_t at : at_ns) {
      const std::int64_t here_ns = at - ahead_ns_[static_cast<std::size_t>(table_.hosts[row])];
      const auto after = std::upper_bound(begins_.begin(), begins_.end(), here_ns);
      if (after == begins_.begin()) {
        places.push_back(static_cast<double>(here_ns - begins_.front()) / usual_ns);
      } else if (after == begins_.end()) {
        places.push_back(steps + static_cast<double>(here_ns - begins_.back()) / usual_ns);
      } else {
        const std::int64_t begin_ns = *(after - 1);
        places.push_back(static_cast<double>(after - begins_.begin() - 1) +
                         static_cast<double>(here_ns - begin_ns) / static_cast<double>(*after - begin_ns));
      }
    }
    return places;
  }

  // None: before the first step, or after the last whole one.
  std::optional<std::size_t> StepAt(double place) const {
    if (!(place >= 0) || place >= static_cast<double>(begins_.size() - 1)) return std::nullopt;
    return static_cast<std::size_t>(place);
  }

  Kind OwnPlaces(const Joined& joined) const {
    const std::vector<double> places =
        Evened(PlacesAt(joined.members.begin()->first, InstantsOf(joined.first(), timing_)), joined.first(), timing_);
    return PlacesOf(joined, places);
  }

  void SetPlaces() {
    Kinds kinds(CallsOf(*reference_), OwnPlaces(*reference_), begins_.size() - 1);
    for (const auto& [key, joined] : joined_) {
      const bool exact = &joined == reference_ || timing_ == Timing::kCalled;
      kind_of_[&joined] = kinds.Add(CallsOf(joined), OwnPlaces(joined), exact);
    }
    kinds_ = std::move(kinds).Take();
  }

  // Its members wait for messages of one another before they come to its collectives, as the stages of a pipeline do:
  // who comes last says nothing.
  bool IsChained(const Joined& joined) const {
    return std::any_of(chains_.begin(), chains_.end(), [&](const auto& pair) {
      return joined.members.contains(pair.first) && joined.members.contains(pair.second);
    });
  }

  void AddCommunicator(const Joined& joined) {
    const Kind& kind = kinds_[kind_of_.at(&joined)];
    struct Arrivals {
      std::vector<std::pair<std::size_t, std::int64_t>> of;  // row, time in the kernel
      std::uint64_t bytes = 0;
      bool timed = true;
    };
    std::unordered_map<Call, Arrivals, CallHash> meetings;
    for (const auto& [row, operations] : joined.members)
      for (const Operation& one : *operations) {
        const Call call{one.function, one.number};
        const auto place = one.is_message ? kind.end() : kind.find(call);
        if (place == kind.end() || !StepAt(place->second.mean())) continue;
        Arrivals& arrivals = meetings[call];
        arrivals.of.emplace_back(row, one.kernel_ns);
        arrivals.bytes = one.bytes;
        arrivals.timed = arrivals.timed && one.kernel_ns > 0;
      }
    const bool chained = IsChained(joined);
    std::map<std::pair<functions::Function, std::uint64_t>, StepTransfers> transfers;
    diagnosis::StepPeers peers;
    for (const auto& [row, operations] : joined.members) peers.rows.push_back(row);
    peers.late_ns.assign(peers.rows.size(), std::vector<std::int64_t>(table_.steps()));
    for (const auto& [call, arrivals] : meetings) {
      StepTransfers& alike = transfers[{call.first, arrivals.bytes}];
      alike.function = call.first;
      alike.bytes = arrivals.bytes;
      alike.rows = peers.rows;
      ++alike.calls;
      const bool all = arrivals.of.size() == static_cast<std::size_t>(joined.size);
      incomplete_ += !all;
      if (arrivals.timed && 2 * arrivals.of.size() > static_cast<std::size_t>(joined.size))
        AddMeeting(arrivals.of, *StepAt(kind.at(call).mean()), chained, all ? &alike.times : nullptr, &peers);
    }
    for (auto& [key, alike] : transfers) {
      std::sort(alike.times.begin(), alike.times.end(),
                [](const auto& a, const auto& b) { return std::pair(a.step, a.ns) < std::pair(b.step, b.ns); });
      if (joined.size > 1) table_.transfers.push_back(std::move(alike));
    }
    AddExchanges(joined, chained, &peers);
    if (joined.size > 1) table_.peers.push_back(std::move(peers));
    AddMessages(messages_.at(&joined));
  }

  void AddExchanges(const Joined& joined, bool chained, diagnosis::StepPeers* peers) {
    const std::vector<Exchange> exchanges = messages_.at(&joined).Exchanges(timing_);
    if (exchanges.empty()) return;
    std::vector<std::int64_t> at_ns;
    for (const Exchange& exchange : exchanges) at_ns.push_back(exchange.at_ns);
    const std::vector<double> places =
        Evened(PlacesAt(exchanges.front().arrivals.front().first, at_ns), joined.first(), timing_);
    for (std::size_t i = 0; i < places.size(); ++i)
      if (const auto step = StepAt(places[i])) AddMeeting(exchanges[i].arrivals, *step, chained, nullptr, peers);
  }

  // The last one to come is in its kernel for the shortest time: it waits for nobody. That is how long the data take,
  // if nobody is missing; by how much the others waited for whom is true even so.
  void AddMeeting(const std::vector<std::pair<std::size_t, std::int64_t>>& arrivals, std::size_t step, bool chained,
                  std::vector<StepTransfers::Timed>* transfers, diagnosis::StepPeers* peers) {
    std::vector<std::int64_t> times;
    for (const auto& [row, kernel_ns] : arrivals) times.push_back(kernel_ns);
    const std::int64_t least = *std::min_element(times.begin(), times.end());
    const std::int64_t middle = diagnosis::Median(times);
    if (transfers) transfers->push_back({step, least});
    for (const auto& [row, kernel_ns] : arrivals) {
      StepPart& part = table_.parts[row][step];
      part.exposed_ns += least;
      part.wait_ns += kernel_ns - least;
      if (chained) continue;
      part.late_ns += middle - kernel_ns;
      const auto place = std::lower_bound(peers->rows.begin(), peers->rows.end(), row) - peers->rows.begin();
      peers->late_ns[static_cast<std::size_t>(place)][step] += middle - kernel_ns;
    }
  }

  void AddMessages(const Messages& messages) {
    std::map<std::pair<std::vector<std::size_t>, std::uint64_t>, StepTransfers> transfers;
    for (const Message& one : messages.Matched(timing_, &incomplete_)) {
      const auto step = StepAt(PlacesAt(one.from, {one.at_ns}).front());
      if (!step) continue;
      StepTransfers& alike = transfers[{{std::min(one.from, one.to), std::max(one.from, one.to)}, one.send->bytes}];
      alike.function = functions::Function::ncclSend;
      alike.bytes = one.send->bytes;
      alike.rows = {std::min(one.from, one.to), std::max(one.from, one.to)};
      alike.is_message = true;
      ++alike.calls;
      const std::int64_t ns = std::min(one.send->kernel_ns, one.receive->kernel_ns);
      if (ns <= 0 || one.send->bytes != one.receive->bytes) continue;
      alike.times.push_back({*step, ns});
      if (timed() || messages.is_exchange()) continue;
      for (const auto& [row, side] : {std::pair(one.from, one.send), std::pair(one.to, one.receive)}) {
        table_.parts[row][*step].exposed_ns += ns;
        table_.parts[row][*step].wait_ns += side->kernel_ns - ns;
      }
    }
    for (auto& [key, alike] : transfers) {
      std::stable_sort(alike.times.begin(), alike.times.end(),
                       [](const auto& a, const auto& b) { return a.step < b.step; });
      table_.transfers.push_back(std::move(alike));
    }
  }

  // What was written at once hides how long each step took, and so does a host that makes the calls of several of them
  // at once, ahead of its GPU: neighbours tell it together.
  std::int64_t DurationOf(std::size_t step) const {
    const std::size_t around = smoothed_ ? kSmoothedSteps : 0;
    const std::size_t begin = step - std::min(step, around), end = std::min(step + around + 1, begins_.size() - 1);
    return (begins_[end] - begins_[begin]) / static_cast<std::int64_t>(end - begin);
  }

  // Where no time is told, a step lasts as long as its calls do.
  void FitInto(std::size_t step, StepPart* part) const {
    part->began_ns = begins_[step];
    part->duration_ns = timed() ? DurationOf(step) : part->exposed_ns + part->wait_ns;
    part->exposed_ns = std::min(part->exposed_ns, part->duration_ns);
    part->wait_ns = std::min(part->wait_ns, part->duration_ns - part->exposed_ns);
  }

  const Ranks& ranks_;
  std::map<std::pair<std::string, std::int32_t>, Joined> joined_;
  std::map<const Joined*, Messages> messages_;
  std::set<std::pair<std::size_t, std::size_t>> chains_;  // rows that wait for messages of one another
  std::vector<std::int64_t> begins_;                      // of the steps, and the end of the last one
  std::vector<std::int64_t> ahead_ns_;                    // clocks, by host
  const Joined* reference_ = nullptr;                     // whose operations the steps are cut by
  std::vector<Kind> kinds_;                               // the first one is that of the reference
  std::map<const Joined*, std::size_t> kind_of_;
  Timing timing_ = Timing::kNone;
  bool smoothed_ = false;  // single steps are not told
  std::size_t incomplete_ = 0;
  StepTable table_;
};

void AddNotes(const Recording& recording, const TableMaker& maker, Job* job) {
  std::vector<std::string>& notes = job->notes;
  notes.push_back(
      fmt::format("recorded by NCCL Inspector: {} operations of {} ranks on {} hosts. It says nothing of what hangs, "
                  "and by default "
                  "leaves out messages under 8 KiB",
                  recording.lines, job->boxes.size(), job->table.host_names.size()));
  if (recording.damaged > 0) notes.push_back(fmt::format("{} lines could not be read", recording.damaged));
  if (recording.unknown > 0)
    notes.push_back(fmt::format("{} lines are about operations that this version does not know", recording.unknown));
  if (recording.untimed > 0)
    notes.push_back(fmt::format("{} operations were not timed on the GPU: they do not count", recording.untimed));
  if (recording.passed_over > 0)
    notes.push_back(fmt::format("the oldest {} operations were passed over", recording.passed_over));
  if (job->table.steps() == 0) {
    notes.push_back("no steps found: no communicator's calls repeat");
    return;
  }
  if (maker.incomplete() > 0)
    notes.push_back(fmt::format("of {} operations not all ranks were recorded: how long their data took is not known",
                                maker.incomplete()));
  if (!maker.timed())
    notes.push_back(
        "when calls were made was not recorded (NCCL_INSPECTOR_DUMP_VERBOSE=1, or a dump interval, would): shares are "
        "of "
        "the time in communication, not of the step");
}

}  // namespace

Job MakeJob(const Recording& recording) {
  Ranks ranks = FindRanks(recording);
  TableMaker maker(recording, ranks);
  Job job;
  job.table = maker.Make();
  job.timed = maker.timed();
  job.boxes = std::move(ranks.boxes);
  AddNotes(recording, maker, &job);
  job.notes.insert(job.notes.end(), ranks.notes.begin(), ranks.notes.end());
  return job;
}

}  // namespace ncclwatch::analyzer::import::inspector
