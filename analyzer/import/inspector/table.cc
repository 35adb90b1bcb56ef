#include "analyzer/import/inspector/table.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/import/inspector/operation.h"
#include "analyzer/import/inspector/read.h"
#include "core/reader/box.h"
#include "core/slow/robust.h"
#include "core/steps/step_count.h"
#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer::import::inspector {
namespace {

using diagnosis::StepPart;
using diagnosis::StepTable;
using diagnosis::StepTransfers;

// Which job rank each process is: its rank in the communicator of all of them.

struct Ranks {
  std::vector<reader::BoxImage> boxes;   // by rank
  std::map<Member, std::size_t> row_of;  // index into them; members that no one rank can be told for are missing
  std::vector<std::string> notes;
};

using Process = std::pair<std::string, std::uint32_t>;  // host and pid

struct World {
  std::map<Process, std::vector<const Member*>> members;  // of each process
  std::int32_t size = 0;
};

// The communicator of all processes, which several may be. None: there is no such one.
std::optional<World> FindWorld(const Recording& recording, std::size_t processes) {
  std::map<std::pair<std::string, std::int32_t>, World> communicators;
  for (const auto& [member, operations] : recording.operations) {
    World& one = communicators[{member.communicator, member.size}];
    one.size = member.size;
    one.members[{member.host, member.pid}].push_back(&member);
  }
  std::optional<World> best;
  for (auto& [key, one] : communicators)
    if (one.members.size() == processes && (!best || one.size > best->size)) best = std::move(one);
  return best;
}

reader::BoxImage BoxOf(const Process& process, int rank) {
  reader::BoxImage box;
  box.path = fmt::format("{}-pid{}", process.first, process.second);
  box.host = process.first;
  box.boot_id = process.first;  // stands for the node: none is told
  box.pid = process.second;
  box.rank = rank;
  box.dump = true;
  return box;
}

// As many boxes as ranks; of a process that holds several ranks one for each.
void AddRanksOfWorld(const World& world, Ranks* ranks) {
  std::vector<std::tuple<int, Process, const Member*>> all;
  bool several = false;
  for (const auto& [process, members] : world.members) {
    several = several || members.size() > 1;
    for (const Member* const member : members) all.emplace_back(member->rank, process, member);
  }
  std::sort(all.begin(), all.end());
  for (const auto& [rank, process, member] : all) {
    ranks->row_of[*member] = ranks->boxes.size();
    ranks->boxes.push_back(BoxOf(process, rank));
    ranks->boxes.back().world_size = world.size;
  }
  if (several)
    ranks->notes.push_back(
        "processes hold several ranks: only the communicator of all ranks is looked at, since nothing says which rank "
        "of "
        "a process is a member of the others");
}

void AddNumberedProcesses(const std::set<Process>& processes, Ranks* ranks) {
  int number = 0;
  for (const Process& process : processes) ranks->boxes.push_back(BoxOf(process, number++));
  ranks->notes.push_back(
      "no communicator of all processes was recorded, so job ranks are not known: processes are numbered by host and "
      "pid");
}

// Of processes that are one rank each.
void AddOtherMembers(const Recording& recording, Ranks* ranks) {
  std::map<Process, std::vector<std::size_t>> rows;
  for (std::size_t row = 0; row < ranks->boxes.size(); ++row)
    rows[{ranks->boxes[row].host, ranks->boxes[row].pid}].push_back(row);
  for (const auto& [member, operations] : recording.operations) {
    const std::vector<std::size_t>& own = rows[{member.host, member.pid}];
    if (own.size() == 1) ranks->row_of.try_emplace(member, own.front());
  }
}

// "0x7f8c496ae9f661" as a number; of other text its hash.
std::uint64_t IdentityOf(const std::string& communicator) {
  std::uint64_t number = 0;
  const std::size_t digits = communicator.starts_with("0x") ? 2 : 0;
  const char* const end = communicator.data() + communicator.size();
  const auto [stop, error] = std::from_chars(communicator.data() + digits, end, number, 16);
  if (error == std::errc() && stop == end) return number;
  for (const char letter : communicator) number = format::Mix(number, static_cast<unsigned char>(letter));
  return number;
}

void AddCommunicators(const Recording& recording, Ranks* ranks) {
  for (const auto& [member, row] : ranks->row_of) {
    reader::Communicator one;
    one.index = static_cast<std::uint32_t>(ranks->boxes[row].communicators.size());
    one.id = IdentityOf(member.communicator);
    one.rank = static_cast<std::uint32_t>(member.rank);
    one.size = static_cast<std::uint32_t>(member.size);
    one.label = member.label;
    one.state = format::CommunicatorState::kReady;
    ranks->boxes[row].communicators.push_back(std::move(one));
    reader::BoxImage& box = ranks->boxes[row];
    for (const Operation& operation : recording.operations.at(member))
      box.heartbeat_ns = std::max(box.heartbeat_ns, operation.written_ns);
  }
}

Ranks FindRanks(const Recording& recording) {
  std::set<Process> processes;
  for (const auto& [member, operations] : recording.operations) processes.emplace(member.host, member.pid);
  Ranks ranks;
  if (const auto world = FindWorld(recording, processes.size()))
    AddRanksOfWorld(*world, &ranks);
  else
    AddNumberedProcesses(processes, &ranks);
  AddOtherMembers(recording, &ranks);
  AddCommunicators(recording, &ranks);
  return ranks;
}

// When the operations of one member were made, as well as its lines tell.

enum class Timing {
  kCalled,   // each line says it (NCCL_INSPECTOR_DUMP_VERBOSE)
  kWritten,  // lines were written again and again, and say when
  kNone,     // all was written at once, or at a few moments: only the order is known
};

constexpr std::int64_t kOneFlush_ns = 2'000'000;  // what is written within that time was written together
constexpr std::size_t kFewestFlushes = 10;        // that tell how fast a job goes on

struct Flush {
  std::size_t begin = 0;
  std::int64_t at_ns = 0;
};

std::vector<Flush> FlushesOf(const std::vector<Operation>& operations) {
  std::vector<Flush> flushes;
  for (std::size_t i = 0; i < operations.size(); ++i)
    if (flushes.empty() || operations[i].written_ns - flushes.back().at_ns > kOneFlush_ns)
      flushes.push_back({i, operations[i].written_ns});
  return flushes;
}

// Evenly over (from, to].
void Spread(std::size_t begin, std::size_t end, std::int64_t from, std::int64_t to, std::vector<std::int64_t>* at_ns) {
  for (std::size_t i = begin; i < end; ++i) {
    const double share = static_cast<double>(i - begin + 1) / static_cast<double>(end - begin);
    (*at_ns)[i] = from + static_cast<std::int64_t>(static_cast<double>(to - from) * share);
  }
}

Timing TimingOf(const std::vector<Operation>& operations) {
  const auto called = [](const Operation& one) { return one.called_ns > 0; };
  const auto earlier = [](const Operation& a, const Operation& b) { return a.called_ns < b.called_ns; };
  if (std::all_of(operations.begin(), operations.end(), called) &&
      std::is_sorted(operations.begin(), operations.end(), earlier))
    return Timing::kCalled;
  const std::vector<Flush> flushes = FlushesOf(operations);
  std::int64_t in_kernels_ns = 0;
  for (const Operation& one : operations) in_kernels_ns += one.kernel_ns;
  // One long flush looks like many; but no job is in kernels for longer than it runs.
  const bool tell = flushes.size() >= kFewestFlushes && flushes.back().at_ns - flushes.front().at_ns > in_kernels_ns;
  return tell ? Timing::kWritten : Timing::kNone;
}

// Of each, ascending; in CLOCK_REALTIME, and of kNone as parts of a second: the operations spread evenly over it.
std::vector<std::int64_t> InstantsOf(const std::vector<Operation>& operations, Timing timing) {
  std::vector<std::int64_t> at_ns(operations.size());
  if (timing == Timing::kCalled) {
    std::transform(operations.begin(), operations.end(), at_ns.begin(), [](const auto& one) { return one.called_ns; });
  } else if (timing == Timing::kNone) {
    Spread(0, operations.size(), 0, kSecond, &at_ns);
  } else {
    const std::vector<Flush> flushes = FlushesOf(operations);
    std::int64_t from =
        flushes.empty() ? 0 : 2 * flushes.front().at_ns - flushes[std::min<std::size_t>(1, flushes.size() - 1)].at_ns;
    for (std::size_t i = 0; i < flushes.size(); ++i) {
      const std::size_t end = i + 1 < flushes.size() ? flushes[i + 1].begin : operations.size();
      Spread(flushes[i].begin, end, from, flushes[i].at_ns, &at_ns);
      from = flushes[i].at_ns;
    }
  }
  return at_ns;
}

constexpr std::size_t kSmoothedSteps = 5;  // on either side

struct Joined {  // a communicator, of which all members that were recorded
  std::int32_t size = 0;
  std::map<std::size_t, const std::vector<Operation>*> members;  // by row of the table
  std::map<std::int32_t, std::size_t> row_of;                    // by rank in it
  const std::vector<Operation>& first() const { return *members.begin()->second; }
};

// What one operation of a communicator is called by all of its ranks.
using Call = std::pair<functions::Function, std::uint64_t>;  // and its number
struct CallHash {
  std::size_t operator()(const Call& call) const {
    return format::Mix(static_cast<std::uint64_t>(call.first), call.second);
  }
};

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
    for (const auto& [key, joined] : joined_)
      for (const auto& [row, operations] : joined.members)
        for (const Operation& one : *operations)
          if (const auto peer = joined.row_of.find(one.peer); one.is_message && peer != joined.row_of.end())
            messages_.insert(std::minmax(row, peer->second));
  }

  StepTable Make() {
    SetRanks();
    if (!SetSteps()) return {};
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

  // Inspector does not tell a GPU's number; ranks of a host count upwards, if no host lacks one.
  void SetRails() {
    std::vector<int> on_host(table_.host_names.size());
    for (const int host : table_.hosts) table_.rails.push_back(on_host[static_cast<std::size_t>(host)]++);
    const auto [least, most] = std::minmax_element(on_host.begin(), on_host.end());
    if (least != on_host.end() && *least != *most) table_.rails.assign(table_.rails.size(), -1);
  }

  // By the communicator in which most of the time goes, and which repeats itself.
  bool SetSteps() {
    std::vector<const Joined*> by_time;
    for (const auto& [key, joined] : joined_) by_time.push_back(&joined);
    std::stable_sort(by_time.begin(), by_time.end(),
                     [](const auto* a, const auto* b) { return TimeIn(a->first()) > TimeIn(b->first()); });
    for (const Joined* const joined : by_time)
      if (SetStepsBy(joined->first())) return true;
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
    for (const diagnosis::NumberedStep& step : steps) begins_.push_back(at_ns[step.begin]);
    table_.parts.assign(table_.ranks.size(), std::vector<StepPart>(begins_.size() - 1));
    return true;
  }

  // None: before the first step, or after the last whole one.
  std::optional<std::size_t> StepAt(std::int64_t at_ns) const {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), at_ns);
    if (after == begins_.begin() || after == begins_.end()) return std::nullopt;
    return static_cast<std::size_t>(after - begins_.begin()) - 1;
  }

  // Its members wait for messages of one another before they come to its collectives, as the stages of a pipeline do:
  // who comes last says nothing.
  bool IsChained(const Joined& joined) const {
    return std::any_of(messages_.begin(), messages_.end(), [&](const auto& pair) {
      return joined.members.contains(pair.first) && joined.members.contains(pair.second);
    });
  }

  void AddCommunicator(const Joined& joined) {
    const std::vector<std::int64_t> at_ns = InstantsOf(joined.first(), timing_);
    std::unordered_map<Call, std::size_t, CallHash> step_of;
    for (std::size_t i = 0; i < at_ns.size(); ++i)
      if (const auto step = StepAt(at_ns[i]); step && !joined.first()[i].is_message)
        step_of[{joined.first()[i].function, joined.first()[i].number}] = *step;

    struct Arrivals {
      std::vector<std::pair<std::size_t, std::int64_t>> of;  // row, time in the kernel
      std::uint64_t bytes = 0;
      bool timed = true;
    };
    std::unordered_map<Call, Arrivals, CallHash> meetings;
    for (const auto& [row, operations] : joined.members)
      for (const Operation& one : *operations) {
        const Call call{one.function, one.number};
        if (one.is_message || !step_of.contains(call)) continue;
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
        AddMeeting(arrivals.of, step_of[call], chained, all ? &alike.times : nullptr, &peers);
    }
    for (auto& [key, alike] : transfers) {
      std::sort(alike.times.begin(), alike.times.end(),
                [](const auto& a, const auto& b) { return std::pair(a.step, a.ns) < std::pair(b.step, b.ns); });
      if (joined.size > 1) table_.transfers.push_back(std::move(alike));
    }
    if (joined.size > 1) table_.peers.push_back(std::move(peers));
    AddMessages(joined);
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

  // The n-th send of one rank to another meets the n-th receive there, as long as none is missing.
  void AddMessages(const Joined& joined) {
    struct Side {
      std::vector<const Operation*> operations;
      std::vector<std::int64_t> at_ns;
    };
    std::map<std::pair<std::size_t, std::size_t>, std::pair<Side, Side>> pairs;  // sends and receives
    for (const auto& [row, operations] : joined.members) {
      const std::vector<std::int64_t> at_ns = InstantsOf(*operations, timing_);
      for (std::size_t i = 0; i < operations->size(); ++i) {
        const Operation& one = (*operations)[i];
        const auto peer = joined.row_of.find(one.peer);
        if (!one.is_message || peer == joined.row_of.end() || peer->second == row) continue;
        const bool sends = one.function == functions::Function::ncclSend;
        auto& pair = pairs[sends ? std::pair(row, peer->second) : std::pair(peer->second, row)];
        Side& side = sends ? pair.first : pair.second;
        side.operations.push_back(&one);
        side.at_ns.push_back(at_ns[i]);
      }
    }
    std::map<std::pair<std::vector<std::size_t>, std::uint64_t>, StepTransfers> transfers;
    for (const auto& [ends, sides] : pairs) {
      const auto& [sends, receives] = sides;
      if (sends.operations.size() != receives.operations.size()) {
        incomplete_ += std::max(sends.operations.size(), receives.operations.size());
        continue;
      }
      for (std::size_t i = 0; i < sends.operations.size(); ++i) {
        const auto step = StepAt(sends.at_ns[i]);
        const Operation &send = *sends.operations[i], &receive = *receives.operations[i];
        if (!step) continue;
        std::vector<std::size_t> rows{std::min(ends.first, ends.second), std::max(ends.first, ends.second)};
        StepTransfers& alike = transfers[{rows, send.bytes}];
        alike.function = functions::Function::ncclSend;
        alike.bytes = send.bytes;
        alike.rows = rows;
        alike.is_message = true;
        ++alike.calls;
        if (const std::int64_t ns = std::min(send.kernel_ns, receive.kernel_ns); ns > 0 && send.bytes == receive.bytes)
          alike.times.push_back({*step, ns});
      }
    }
    for (auto& [key, alike] : transfers) {
      std::stable_sort(alike.times.begin(), alike.times.end(),
                       [](const auto& a, const auto& b) { return a.step < b.step; });
      table_.transfers.push_back(std::move(alike));
    }
  }

  // What was written at once hides how long each step took: neighbours tell it together.
  std::int64_t DurationOf(std::size_t step) const {
    const std::size_t around = timing_ == Timing::kWritten ? kSmoothedSteps : 0;
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
  std::set<std::pair<std::size_t, std::size_t>> messages_;  // rows
  std::vector<std::int64_t> begins_;                        // of the steps, and the end of the last one
  Timing timing_ = Timing::kNone;
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
