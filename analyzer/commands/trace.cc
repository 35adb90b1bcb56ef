// `ncclwatch trace`: the recorded calls of all ranks, merged by time.
#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>
#include <absl/strings/str_split.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <thread>

#include "analyzer/commands/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"
#include "analyzer/jobs/site_lines.h"
#include "analyzer/recording/recording.h"
#include "analyzer/steps/steps.h"
#include "analyzer/trace/columns.h"
#include "analyzer/trace/filter.h"
#include "analyzer/trace/print.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kDescription[] =
    "List the recorded calls of all ranks, merged by time.\n\n"
    "ROOT is the root of a rooted collective, or pN: peer N of a send or receive (rank in the communicator).\n"
    "POS counts the collectives of the communicator; sends and receives are counted for each peer and direction.\n"
    "STATE: entered (the host is inside the call), returned (enqueued), started (begun on the GPU;\n"
    "NCCLWATCH_GPU=both), finished (on the GPU), failed. TOOK is the time inside the call; > means that it is\n"
    "still pending. A MOMENT is 30s (before the end), 14:03:07.5 (local) or 2026-01-01T00:00:00.000Z.\n"
    "Exit status: 0 done, 2 usage, 3 if any file could not be read.";

constexpr std::chrono::milliseconds kPoll(200);  // how often --follow looks

struct Wish {
  std::vector<std::string> words, communicators, ops;
  std::string ranks, since, until;
  std::size_t last = 0;  // 0: all
  std::string least_bytes, states, steps;
  bool pending = false, follow = false, wide = false, json = false, csv = false, arrow = false;
};

void Declare(Options* options, Wish* wish) {
  options->add_option("DIR|FILE", wish->words, "run directories and black boxes (default: the newest run directory)")
      ->type_name("");
  options->add_option("--rank", wish->ranks, "only these job ranks: 0,2,4-7")->type_name("LIST");
  options->add_option("--comm", wish->communicators, "only this communicator: label or beginning of its id")
      ->type_name("NAME")
      ->allow_extra_args(false);
  options->add_option("--op", wish->ops, "only this operation: AllReduce, Send, ...")
      ->type_name("NAME")
      ->allow_extra_args(false);
  options->add_option("--since", wish->since, "only calls entered at or after this")->type_name("MOMENT");
  options->add_option("--until", wish->until, "only calls entered at or before this")->type_name("MOMENT");
  options->add_option("--step", wish->steps, "only calls of these steps of the training loop: 100..110")
      ->type_name("A..B");
  options->add_option("--last", wish->last, "only the last N calls")->type_name("N");
  options->add_flag("--pending", wish->pending, "only calls that have not ended");
  options->add_flag("--follow", wish->follow, "keep printing new calls until the job ends");
  options->add_flag("--arrow", wish->arrow, "print Arrow columns, for the Python package");
  options->add_flag("--wide", wish->wide, "print all columns: also thread, stream, group, result, call site");
  options->add_option("--min-bytes", wish->least_bytes, "only calls that move at least so much: 1M")->type_name("SIZE");
  options->add_option("--state", wish->states, "only calls in this state: entered, returned, started, finished, failed")
      ->type_name("STATE");
  options->add_flag("--csv", wish->csv, "print comma-separated values, with a heading");
  options->add_flag("--json", wish->json, "print JSON lines, one for each call");
}

absl::StatusOr<Filter> FilterOf(const Wish& wish, absl::Time end) {
  Filter filter;
  if (!wish.ranks.empty()) {
    const auto ranks = ParseRanks(wish.ranks);
    if (!ranks)
      return absl::InvalidArgumentError(fmt::format("--rank takes a list like 0,2,4-7, not '{}'", wish.ranks));
    filter.ranks = *ranks;
  }
  for (const auto& [name, text, moment] :
       {std::tuple{"--since", &wish.since, &filter.since}, std::tuple{"--until", &wish.until, &filter.until}}) {
    if (text->empty()) continue;
    *moment = ParseMoment(*text, end);
    if (!*moment)
      return absl::InvalidArgumentError(
          fmt::format("{} takes 30s, 14:03:07 or 2026-01-01T00:00:00.000Z, not '{}'", name, *text));
  }
  if (!wish.least_bytes.empty()) {
    const auto bytes = ParseBytes(wish.least_bytes);
    if (!bytes)
      return absl::InvalidArgumentError(fmt::format("--min-bytes takes a size like 1M, not '{}'", wish.least_bytes));
    filter.least_bytes = *bytes;
  }
  if (!wish.states.empty()) {
    filter.states = absl::StrSplit(wish.states, ',');
    for (const std::string& state : filter.states)
      if (!IsState(state)) return absl::InvalidArgumentError(fmt::format("--state knows no '{}'", state));
  }
  filter.communicators = wish.communicators;
  filter.ops = wish.ops;
  filter.pending = wish.pending;
  return filter;
}

// Of the calls that are shown.
void FindLines(const reader::BoxImage& box, std::vector<Row>::iterator begin, std::vector<Row>::iterator end,
               SiteLines* lines) {
  const auto known = lines->PlacesOf(box);
  for (; begin != end; ++begin)
    if (const auto place = known.find(begin->site); place != known.end()) begin->source = place->second;
}

// The wanted rows of one process, in order of slots.
class RowReader {
 public:
  RowReader(const ProcessRecording& process, const Filter& filter, SiteLines* lines)
      : pieces_(process), filter_(filter), lines_(lines) {
    now_ns_ = UntilNs(process.process());
    pieces_.wants = [this, rank = process.rank()](const SegmentIndex& index) { return filter_.Wants(index, rank); };
  }

  bool Next(std::vector<reader::Failure>* failures) {
    for (++at_; at_ >= rows_.size(); at_ = 0) {
      Piece piece;
      rows_.clear();
      if (!pieces_.Next(&piece, failures)) return false;
      for (Row& row : Rows(piece, now_ns_, filter_.ForCalls(piece)))
        if (filter_.Wants(row)) rows_.push_back(std::move(row));
      FindLines(piece, rows_.begin(), rows_.end(), lines_);
      // Threads of one process take slots in another order than they read the clock.
      std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return a.time < b.time; });
    }
    return true;
  }
  Row& row() { return rows_[at_]; }

 private:
  PieceReader pieces_;
  const Filter& filter_;
  SiteLines* lines_;
  std::int64_t now_ns_ = 0;
  std::vector<Row> rows_;
  std::size_t at_ = SIZE_MAX - 1;
};

// Gives `take` the wanted rows of all processes, by time. Only a piece of each process is in memory.
void Merge(const Recording& recording, const Filter& filter, std::vector<reader::Failure>* failures,
           const std::function<void(Row)>& take) {
  SiteLines lines(recording.Images());
  std::vector<std::unique_ptr<RowReader>> readers;
  using Head = std::pair<absl::Time, std::size_t>;  // of what comes next of each
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  for (const ProcessRecording& process : recording.processes()) {
    readers.push_back(std::make_unique<RowReader>(process, filter, &lines));
    if (readers.back()->Next(failures)) heads.push({readers.back()->row().time, readers.size() - 1});
  }
  while (!heads.empty()) {
    const std::size_t i = heads.top().second;
    heads.pop();
    take(std::move(readers[i]->row()));
    if (readers[i]->Next(failures)) heads.push({readers[i]->row().time, i});
  }
}

// All of them, where widths of columns or of everything depend on all.
void Print(const std::vector<Row>& rows, const Wish& wish) {
  if (wish.arrow) {
    const std::string bytes = ToColumns(rows);
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  } else if (wish.json) {
    for (const Row& row : rows) WriteOut(ToJsonLine(row));
  } else if (wish.csv) {
    for (const Row& row : rows) WriteOut(ToCsvLine(row));
  } else if (rows.empty()) {
    std::fputs("no recorded call matches\n", stderr);
  } else {
    WriteOut(ToTable(rows, wish.wide));
  }
}

// Prints rows as they come, as far as that is possible.
class Printer {
 public:
  explicit Printer(const Wish& wish) : wish_(wish) {
    if (wish.csv) WriteOut(CsvHeading());
  }
  void Take(Row row) {
    if (wish_.last != 0 && rows_.size() == wish_.last) rows_.pop_front();
    if ((wish_.json || wish_.csv) && wish_.last == 0) return WriteOut(wish_.json ? ToJsonLine(row) : ToCsvLine(row));
    rows_.push_back(std::move(row));
    if (rows_.size() == kRowsOfTable && wish_.last == 0 && !wish_.arrow) PrintAll();
  }
  void Finish() {
    if ((wish_.json || wish_.csv) && wish_.last == 0) return;
    if (!rows_.empty() || !printed_) PrintAll();
  }

 private:
  static constexpr std::size_t kRowsOfTable = 1 << 16;  // then a new heading, for columns as wide as the next rows want

  void PrintAll() {
    Print({std::make_move_iterator(rows_.begin()), std::make_move_iterator(rows_.end())}, wish_);
    rows_.clear();
    printed_ = true;
  }

  const Wish& wish_;
  std::deque<Row> rows_;
  bool printed_ = false;
};

void SayLost(const Recording& recording) {
  for (const ProcessRecording& process : recording.processes())
    if (!process.segments().empty() && process.lost_calls() != 0)
      Complain("", "rank {}: {} calls are missing, {}", process.rank(), process.lost_calls(), LostText(process.lost()));
}

// Each call once, when first seen: its state is that of then.
void Follow(const std::vector<std::string>& paths, const Filter& filter, const Wish& wish, Recording recording) {
  absl::flat_hash_map<std::pair<std::string, std::uint32_t>, std::uint64_t> next_slot;  // by host and pid
  if (!wish.json) WriteOut(FollowHeading());
  bool first = true;
  for (;;) {
    const bool alive = AnyAlive(recording.run().boxes);
    std::vector<reader::Failure> failures;
    std::vector<Row> rows;
    Merge(recording, filter, &failures, [&](Row row) { rows.push_back(std::move(row)); });
    std::erase_if(rows, [&](const Row& row) { return row.slot < next_slot[{row.host, row.pid}]; });
    for (const ProcessRecording& process : recording.processes())
      next_slot[{process.process().host, process.process().pid}] = process.end_slot();
    const std::size_t skip = first && wish.last && rows.size() > wish.last ? rows.size() - wish.last : 0;
    for (std::size_t i = skip; i < rows.size(); ++i) WriteOut(wish.json ? ToJsonLine(rows[i]) : FollowLine(rows[i]));
    if (std::fflush(stdout) != 0 || !alive) return;
    first = false;
    std::this_thread::sleep_for(kPoll);
    recording = Recording::Open(paths);
  }
}

}  // namespace

int Trace(const Command& self, const Arguments& arguments) {
  Options options(self, kDescription);
  Wish wish;
  Declare(&options, &wish);
  if (const auto status = options.Read(arguments)) return *status;
  // Mistakes are said before anything is read.
  if (const auto filter = FilterOf(wish, absl::Now()); !filter.ok())
    return UsageError(self, std::string(filter.status().message()));
  const auto steps = ParseSteps(wish.steps);
  if (!wish.steps.empty() && !steps)
    return UsageError(self, "--step takes a range like 100..110, not '" + wish.steps + "'");
  if (steps && wish.follow) return UsageError(self, "--step and --follow exclude one another");

  const auto paths = Locate(wish.words);
  if (!paths.ok()) return Unreadable(self, paths.status());
  Recording recording = Recording::Open(*paths);
  std::vector<reader::Failure> failures = recording.run().failures;
  SayFailures(failures);
  absl::StatusOr<Filter> filter = FilterOf(wish, recording.End());
  if (recording.processes().empty()) return kUnreadable;
  if (wish.follow) {
    Follow(*paths, *filter, wish, std::move(recording));
    return failures.empty() ? kDone : kUnreadable;
  }
  SayLost(recording);
  if (steps) {
    auto calls = CallsOfSteps(recording, *steps);
    if (!calls.ok()) return Unreadable(self, calls.status());
    filter->calls = *std::move(calls);
  }
  const std::size_t said = failures.size();
  Printer printer(wish);
  Merge(recording, *filter, &failures, [&](Row row) { printer.Take(std::move(row)); });
  printer.Finish();
  SayFailures({failures.begin() + static_cast<std::ptrdiff_t>(said), failures.end()});
  return failures.empty() ? kDone : kUnreadable;
}

}  // namespace ncclwatch::analyzer
