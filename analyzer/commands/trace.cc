// `ncclwatch trace`: the recorded calls of all ranks, merged by time.
#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>

#include <chrono>
#include <cstdio>
#include <deque>
#include <iterator>
#include <thread>

#include "analyzer/commands/options/attempt_option.h"
#include "analyzer/commands/options/filter_options.h"
#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"
#include "analyzer/recording/recording.h"
#include "analyzer/trace/columns.h"
#include "analyzer/trace/filter.h"
#include "analyzer/trace/lines.h"
#include "analyzer/trace/print.h"
#include "analyzer/trace/sites.h"
#include "analyzer/trace/write_lines.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kTraceHelp[] =
    "List the recorded calls of all ranks, merged by time.\n\n"
    "ROOT is the root of a rooted collective, or pN: peer N of a send or receive (rank in the communicator).\n"
    "POS counts the collectives of the communicator; sends and receives are counted for each peer and direction.\n"
    "STATE: entered (the host is inside the call), returned (enqueued), started (begun on the GPU;\n"
    "NCCLWATCH_GPU=both), finished (on the GPU), failed. TOOK is the time inside the call; > means that it is\n"
    "still pending. A MOMENT is 30s (before the end), 14:03:07.5 (local) or 2026-01-01T00:00:00.000Z.\n"
    "Exit status: 0 done, 2 usage, 3 if any file could not be read.";

constexpr std::chrono::milliseconds kFollowPoll(200);  // how often --follow looks

struct TraceRequest {
  std::vector<std::string> words;
  AttemptChoice attempt;
  FilterWords filter;
  std::size_t last = 0;  // 0: all
  bool follow = false, wide = false, json = false, csv = false, arrow = false;
};

void Declare(Options* options, TraceRequest* request) {
  options->add_option("DIR|FILE", request->words, "run directories and black boxes (default: the newest run directory)")
      ->type_name("");
  DeclareAttempt(options, &request->attempt);
  DeclareFilter(options, &request->filter);
  options->add_option("--last", request->last, "only the last N calls")->type_name("N")->check(CLI::PositiveNumber);
  options->add_flag("--follow", request->follow, "keep printing new calls until the job ends");
  options->add_flag("--arrow", request->arrow, "print Arrow columns, for the Python package")->group(kInternal);
  options->add_flag("--wide", request->wide, "print all columns: also thread, stream, group, result, call site");
  options->add_flag("--csv", request->csv, "print comma-separated values, with a heading");
  options->add_flag("--json", request->json, "print JSON lines, one for each call");
}

// Gives `take` the wanted calls of all processes, by time.
void Merge(const Recording& recording, const Filter& filter, std::vector<reader::Failure>* failures,
           absl::FunctionRef<void(const MergedCall&, const Facts&)> take) {
  MergeCalls(recording, filter.Requests(), failures, [&](MergedBatch* batch) {
    for (const MergedCall& merged : batch->calls) {
      const Facts facts = FactsOf(merged);
      if (filter.Wants(facts)) take(merged, facts);
    }
    return true;
  });
}

Row RowOf(const MergedCall& merged, const Facts& facts, Sites* sites) {
  Row row = RowOf(facts);
  sites->FillIn(merged, &row);
  return row;
}

std::string JsonLine(const MergedCall& merged, const Facts& facts, Sites* sites) {
  LineWriter writer(LineForm::kJson);
  ByteBuffer line;
  writer.Append(facts, writer.SiteCells(sites->Of(merged)), &line);
  return std::string(line.view());
}

// The last lines of a text that comes piece by piece.
class LastLines {
 public:
  explicit LastLines(std::uint64_t most) : most_(most) {}
  void Add(std::string_view text, std::uint64_t lines) {
    pieces_.push_back({std::string(text), lines});
    lines_ += lines;
    for (; lines_ - pieces_.front().lines >= most_; pieces_.pop_front()) lines_ -= pieces_.front().lines;
  }
  void Print() {
    for (Piece& piece : pieces_) {
      for (; lines_ > most_; --lines_) piece.text.erase(0, piece.text.find('\n') + 1);
      WriteOut(piece.text);
    }
  }

 private:
  struct Piece {
    std::string text;
    std::uint64_t lines;
  };
  const std::uint64_t most_;
  std::uint64_t lines_ = 0;
  std::deque<Piece> pieces_;
};

void PrintLines(const Recording& recording, const Filter& filter, const TraceRequest& request,
                std::vector<reader::Failure>* failures) {
  if (request.csv) WriteOut(CsvHeading());
  Sites sites(recording);
  LastLines last(request.last);
  const auto print = [&](std::string_view text, std::uint64_t lines) {
    if (request.last != 0)
      last.Add(text, lines);
    else
      std::fwrite(text.data(), 1, text.size(), stdout);  // printable as it is
    return absl::OkStatus();                             // an error of stdout is reported at the end
  };
  WriteLines(recording, filter, request.json ? LineForm::kJson : LineForm::kCsv, &sites, failures, print).IgnoreError();
  if (request.last != 0) last.Print();
}

// Prints calls as they come, in tables by the widths of their columns; Arrow's columns at the end.
class Printer {
 public:
  Printer(const TraceRequest& request, const Recording& recording) : request_(request), sites_(recording) {}
  void Take(const MergedCall& merged, const Facts& facts) {
    if (request_.last != 0 && rows_.size() == request_.last) rows_.pop_front();
    rows_.push_back(RowOf(merged, facts, &sites_));
    if (rows_.size() == kRowsOfTable && request_.last == 0 && !request_.arrow) PrintRows();
  }
  void Finish() {
    if (!rows_.empty() || !printed_) PrintRows();
  }

 private:
  static constexpr std::size_t kRowsOfTable = 1 << 16;  // then a new heading, for columns as wide as the next rows want

  void PrintRows() {
    const std::vector<Row> rows{std::make_move_iterator(rows_.begin()), std::make_move_iterator(rows_.end())};
    rows_.clear();
    printed_ = true;
    if (request_.arrow) {
      const std::string bytes = ToColumns(rows);
      std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    } else if (rows.empty()) {
      std::fputs("no recorded call matches\n", stderr);
    } else {
      WriteOut(ToTable(rows, request_.wide));
    }
  }

  const TraceRequest& request_;
  Sites sites_;
  std::deque<Row> rows_;
  bool printed_ = false;
};

void PrintRows(const Recording& recording, const Filter& filter, const TraceRequest& request,
               std::vector<reader::Failure>* failures) {
  Printer printer(request, recording);
  Merge(recording, filter, failures,
        [&](const MergedCall& merged, const Facts& facts) { printer.Take(merged, facts); });
  printer.Finish();
}

// Each call once, when first seen: its state is that of then.
void Follow(const std::vector<std::string>& paths, const Filter& filter, const TraceRequest& request,
            Recording recording) {
  absl::flat_hash_map<std::pair<std::string, std::uint32_t>, std::uint64_t> next_slot;  // by host and pid
  if (!request.json) WriteOut(FollowHeading());
  bool first = true;
  diagnosis::CommunicatorNames names;
  for (;;) {
    const bool alive = AnyAlive(recording.run().boxes);
    std::vector<reader::Failure> failures;
    std::vector<std::string> lines;
    Sites sites(recording);
    Merge(recording, filter, &failures, [&](const MergedCall& merged, const Facts& facts) {
      if (merged.call.slot < next_slot[{facts.box.host, facts.box.pid}]) return;
      lines.push_back(request.json ? JsonLine(merged, facts, &sites)
                                   : FollowLine(RowOf(merged, facts, &sites), &names));
    });
    for (const ProcessRecording& process : recording.processes())
      next_slot[{process.process().host, process.process().pid}] = process.end_slot();
    const std::size_t skip = first && request.last && lines.size() > request.last ? lines.size() - request.last : 0;
    for (std::size_t i = skip; i < lines.size(); ++i) WriteOut(lines[i]);
    if (std::fflush(stdout) != 0 || !alive) return;
    first = false;
    std::this_thread::sleep_for(kFollowPoll);
    recording = Recording::Open(paths);
  }
}

}  // namespace

int Trace(const Command& self, const Arguments& arguments) {
  KeepFreedMemory();
  Options options(self, kTraceHelp);
  TraceRequest request;
  Declare(&options, &request);
  if (const auto status = options.Read(arguments)) return *status;
  // Mistakes are said before anything is read.
  if (const absl::Status wrong = Check(request.filter); !wrong.ok())
    return UsageError(self, std::string(wrong.message()));
  if (!request.filter.steps.empty() && request.follow)
    return UsageError(self, "--step and --follow exclude one another");

  if (request.follow) request.attempt.prefer = Prefer::kLiving;
  const auto located = Locate(request.words, request.attempt);
  if (!located.ok()) return Unreadable(self, located.status());
  SayWhichAttempt(located->attempts);
  Recording recording = Recording::Open(located->paths);
  std::vector<reader::Failure> failures = recording.run().failures;
  SayFailures(failures);
  if (recording.processes().empty()) return kUnreadable;
  const absl::StatusOr<Filter> filter = FilterOf(request.filter, recording);
  if (!filter.ok()) return Unreadable(self, filter.status());
  if (request.follow) {
    Follow(located->paths, *filter, request, std::move(recording));
    return failures.empty() ? kDone : kUnreadable;
  }
  SayLost(recording);
  const std::size_t said = failures.size();
  request.json || request.csv ? PrintLines(recording, *filter, request, &failures)
                              : PrintRows(recording, *filter, request, &failures);
  SayFailures({failures.begin() + static_cast<std::ptrdiff_t>(said), failures.end()});
  return failures.empty() ? kDone : kUnreadable;
}

}  // namespace ncclwatch::analyzer
