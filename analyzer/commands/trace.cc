// `ncclwatch trace`: the recorded calls of all ranks, merged by time.
#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "analyzer/commands/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"
#include "analyzer/jobs/site_lines.h"
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
  bool pending = false, follow = false, wide = false, json = false, arrow = false;
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
  options->add_option("--last", wish->last, "only the last N calls")->type_name("N");
  options->add_flag("--pending", wish->pending, "only calls that have not ended");
  options->add_flag("--follow", wish->follow, "keep printing new calls until the job ends");
  options->add_flag("--arrow", wish->arrow, "print Arrow columns, for the Python package");
  options->add_flag("--wide", wish->wide, "print all columns: also thread, stream, group, result, call site");
  options->add_flag("--json", wish->json, "print JSON lines, one for each call");
}

// The last moment that any box tells of.
absl::Time EndOf(const reader::RunImage& run) {
  std::int64_t end = 0;
  for (const reader::BoxImage& box : run.boxes) {
    std::int64_t last = box.heartbeat_ns;
    for (const reader::Call& call : box.calls) last = std::max({last, call.entered_ns, call.returned_ns});
    end = std::max(end, last + box.realtime_minus_monotonic_ns);
  }
  return absl::FromUnixNanos(end);
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
  filter.communicators = wish.communicators;
  filter.ops = wish.ops;
  filter.pending = wish.pending;
  return filter;
}

// Of the calls that are shown.
void FindLines(const reader::BoxImage& box, std::vector<Row>::iterator begin, std::vector<Row>::iterator end,
               SiteLines* lines) {
  absl::flat_hash_map<std::uint64_t, std::optional<diagnosis::SourcePlace>> known;
  for (const reader::CallSite& site : box.call_sites) known.emplace(site.address, lines->Place(site.name));
  for (; begin != end; ++begin)
    if (const auto place = known.find(begin->site); place != known.end()) begin->source = place->second;
}

std::vector<Row> Merge(const reader::RunImage& run, const Filter& filter) {
  SiteLines lines(run.boxes);
  std::vector<Row> rows;
  for (const reader::BoxImage& box : run.boxes) {
    // A dead process's pending calls lasted until its last sign of life.
    const std::size_t before = rows.size();
    const bool alive = IsHere(box) && Alive(box);
    for (Row& row : Rows(box, alive ? MonotonicNow() : box.heartbeat_ns))
      if (filter.Wants(row)) rows.push_back(std::move(row));
    FindLines(box, rows.begin() + static_cast<std::ptrdiff_t>(before), rows.end(), &lines);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.time < b.time; });
  return rows;
}

void Print(const std::vector<Row>& rows, const Wish& wish) {
  if (wish.arrow) {
    const std::string bytes = ToColumns(rows);
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    return;
  }
  if (!wish.json) {
    if (rows.empty())
      std::fputs("no recorded call matches\n", stderr);
    else
      WriteOut(ToTable(rows, wish.wide));
    return;
  }
  for (const Row& row : rows) WriteOut(ToJsonLine(row));
}

// Each call once, when first seen: its state is that of then.
void Follow(const std::vector<std::string>& paths, const Filter& filter, const Wish& wish, reader::RunImage run) {
  absl::flat_hash_map<std::pair<std::string, std::uint32_t>, std::uint64_t> next_slot;  // by host and pid
  if (!wish.json) WriteOut(FollowHeading());
  bool first = true;
  for (;;) {
    const bool alive = AnyAlive(run.boxes);
    std::vector<Row> rows = Merge(run, filter);
    std::erase_if(rows, [&](const Row& row) { return row.slot < next_slot[{row.host, row.pid}]; });
    for (const reader::BoxImage& box : run.boxes)
      if (!box.calls.empty()) next_slot[{box.host, box.pid}] = box.calls.back().slot + 1;
    const std::size_t skip = first && wish.last && rows.size() > wish.last ? rows.size() - wish.last : 0;
    for (std::size_t i = skip; i < rows.size(); ++i) WriteOut(wish.json ? ToJsonLine(rows[i]) : FollowLine(rows[i]));
    if (std::fflush(stdout) != 0 || !alive) return;
    first = false;
    std::this_thread::sleep_for(kPoll);
    run = ReadJob(paths, reader::Calls::kAll);
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

  const auto paths = Locate(wish.words);
  if (!paths.ok()) return Unreadable(self, paths.status());
  reader::RunImage run = ReadJob(*paths, reader::Calls::kAll);
  SayFailures(run.failures);
  const absl::StatusOr<Filter> filter = FilterOf(wish, EndOf(run));
  const bool damaged = !run.failures.empty();
  if (run.boxes.empty()) return kUnreadable;
  if (wish.follow) {
    Follow(*paths, *filter, wish, std::move(run));
  } else {
    std::vector<Row> rows = Merge(run, *filter);
    if (wish.last && rows.size() > wish.last)
      rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(wish.last));
    Print(rows, wish);
  }
  return damaged ? kUnreadable : kDone;
}

}  // namespace ncclwatch::analyzer
