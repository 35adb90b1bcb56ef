#include "analyzer/metrics/node_state.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <tuple>
#include <utility>

#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"
#include "core/reader/box.h"
#include "core/slow/robust.h"
#include "core/steps/step_table.h"
#include "core/view/from_boxes.h"
#include "core/view/view.h"
#include "ncclwatch/functions/bandwidth.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::uint64_t kNewestCalls = 4096;     // of each rank
constexpr std::uint64_t kCallsOfAll = 1u << 19;  // about: of more than 128 ranks fewer of each
constexpr std::uint64_t kLeastCalls = 256;
constexpr std::size_t kNewestSteps = 20;
constexpr std::size_t kMostTransfers = 20;

std::int64_t Now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool IsOver(const reader::BoxImage& box, const reader::Call& call) {
  if (call.BlocksCaller()) return false;
  if ((call.flags & format::kMarked) == 0) return true;
  const auto on = std::find_if(box.communicators.begin(), box.communicators.end(), [&](const auto& one) {
    return one.index == call.communicator && one.generation == call.generation;
  });
  return on == box.communicators.end() || on->state != format::CommunicatorState::kReady || on->Finished(call.ticket);
}

RankState StateOf(const reader::BoxImage& box, std::uint64_t calls) {
  RankState state;
  state.rank = box.rank;
  state.alive = Alive(box);
  state.calls = calls;
  if (!state.alive) return state;
  for (const reader::Call& call : box.calls)
    if (!IsOver(box, call)) state.waiting_s = std::max(state.waiting_s, InSeconds(Now_ns() - call.entered_ns));
  return state;
}

template <class Part>
double MedianOf(const diagnosis::StepTable& table, Part part) {
  std::vector<double> values;
  const std::size_t from = table.steps() - std::min(table.steps(), kNewestSteps);
  for (const auto& row : table.parts)
    for (std::size_t step = from; step < row.size(); ++step)
      if (row[step].duration_ns > 0) values.push_back(InSeconds(part(row[step])));
  return diagnosis::Median(std::move(values));
}

void AddSteps(const diagnosis::StepTable& table, NodeState* state) {
  if (table.steps() == 0) return;
  using diagnosis::StepPart;
  StepState step;
  step.step_s = MedianOf(table, [](const StepPart& part) { return part.duration_ns; });
  step.compute_s = MedianOf(table, [](const StepPart& part) { return part.compute_ns(); });
  step.exposed_s = MedianOf(table, [](const StepPart& part) { return part.exposed_ns; });
  step.wait_s = MedianOf(table, [](const StepPart& part) { return part.waiting_ns(); });
  state->step = step;
  for (std::size_t row = 0; row < table.ranks.size(); ++row)
    for (RankState& rank : state->ranks)
      for (std::size_t last = table.steps(); rank.rank == table.ranks[row] && last > 0; --last)
        if (table.parts[row][last - 1].duration_ns > 0) {
          rank.step = table.first + last - 1;
          break;
        }
}

functions::Pattern PatternOf(const diagnosis::StepTransfers& one) {
  if (one.is_message) return functions::Pattern::kSend;
  return functions::IsMpi(one.function) ? functions::PatternOfMpi(one.function)
                                        : functions::PatternOfNccl(one.function);
}

// One row for each operation and size, whatever the communicator.
void AddTransfers(const diagnosis::StepTable& table, NodeState* state) {
  std::map<std::tuple<functions::Function, std::uint64_t, std::size_t>,
           std::pair<std::vector<double>, const diagnosis::StepTransfers*>>
      alike;
  for (const diagnosis::StepTransfers& one : table.transfers) {
    auto& [times, any] = alike[{one.function, one.bytes, one.rows.size()}];
    any = &one;
    for (const auto& timed : one.times) times.push_back(static_cast<double>(timed.ns));
  }
  std::vector<std::pair<double, TransferState>> rows;
  for (auto& [key, row] : alike) {
    const double total = static_cast<double>(row.first.size()) * diagnosis::Median(row.first);
    const auto bandwidth =
        functions::BandwidthOf(PatternOf(*row.second), row.second->bytes,
                               static_cast<std::uint32_t>(row.second->rows.size()), diagnosis::Median(row.first));
    if (!bandwidth) continue;
    rows.emplace_back(total, TransferState{std::string(functions::OpName(row.second->function)), row.second->bytes,
                                           bandwidth->busbw_GBps * 1e9});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [total, transfer] : rows) {
    const bool known =
        std::any_of(state->transfers.begin(), state->transfers.end(),
                    [&, &its = transfer](const auto& one) { return one.op == its.op && one.bytes == its.bytes; });
    if (!known && state->transfers.size() < kMostTransfers) state->transfers.push_back(transfer);
  }
}

void AddNumbers(const reader::BoxImage& box, NodeState* state) {
  for (const reader::Note& note : box.notes)
    if (note.kind == format::NoteKind::kMetric) state->numbers[{note.name, std::max(box.rank, 0)}] = note.value;
}

}  // namespace

NodeState ObserveNode(const std::string& directory, const diagnosis::Topology& topology) {
  NodeState state;
  reader::RunImage run;
  run.directory = directory;
  const std::vector<std::string> files = BoxFiles(directory);
  const std::uint64_t newest =
      std::clamp<std::uint64_t>(kCallsOfAll / std::max<std::size_t>(1, files.size()), kLeastCalls, kNewestCalls);
  for (const std::string& path : files) {
    const auto opened = reader::MappedBox::Open(path);
    const auto* const box = std::get_if<std::unique_ptr<reader::MappedBox>>(&opened);
    if (!box || !(*box)->StillWhole()) continue;
    run.boxes.push_back((*box)->Image(newest));
    state.ranks.push_back(StateOf(run.boxes.back(), (*box)->head()));
    AddNumbers(run.boxes.back(), &state);
  }
  if (run.boxes.empty()) return state;
  std::sort(state.ranks.begin(), state.ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  const reader::BoxImage& any = run.boxes.front();
  state.job = any.job;
  state.host = any.node.empty() ? any.host : any.node;
  state.expected = any.world_size;
  if (any.nccl_version > 0)
    state.nccl = std::to_string(any.nccl_version / 10000) + "." + std::to_string(any.nccl_version / 100 % 100) + "." +
                 std::to_string(any.nccl_version % 100);
  {
    const diagnosis::Snapshot snapshot = diagnosis::FromBoxes(run.boxes);
    const diagnosis::View view = diagnosis::MakeView(snapshot);
    if (view.nodes.size() > 1) {
      const diagnosis::StepTable table = diagnosis::MakeStepTable(view, kNewestCalls);
      AddSteps(table, &state);
      AddTransfers(table, &state);
    }
  }
  state.findings = Diagnose(std::move(run), {nullptr, topology}).findings;
  return state;
}

}  // namespace ncclwatch::analyzer
