// `ncclwatch stats`: where the calls and their time went.
#include <absl/strings/str_split.h>

#include <algorithm>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <queue>

#include "analyzer/commands/options/attempt_option.h"
#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/site_lines.h"
#include "analyzer/recording/recording.h"
#include "analyzer/stats/peers.h"
#include "analyzer/stats/print.h"
#include "analyzer/steps/breakdown.h"
#include "analyzer/steps/steps.h"
#include "core/model/text.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kStatsHelp[] =
    "Sum up the recorded calls: how many, how long, how many bytes, who waited for whom.\n\n"
    "A recording holds all calls; black boxes only those that their rings still hold. LOST counts the missing ones.\n"
    "TIME is how long the host was in the calls. UNDER WAY, P50, P99 and MAX are from the call to its end: a request\n"
    "ends when the program learns of it, and requests overlap. Where KERNEL is shown, NCCL has timed some of its\n"
    "kernels, and the times are theirs. WAIT is the time before the last rank made the call, as far as this one\n"
    "waited. AWAITED is how long others waited for that rank. MPI_Sendrecv is one call: its SIZE is what it sends.\n"
    "ALGBW and BUSBW are computed as in nccl-tests, in 1e9 bytes per second.\n\n"
    "--steps cuts the calls into steps of the program's loop. COMPUTE, EXPOSED (in collectives, with all ranks\n"
    "present) and WAIT (for other ranks and for messages) add up to the step. They are medians over the ranks.\n"
    "LAST is the rank that came last to a call in which others waited, and LATE by how much.\n"
    "Where the recording tells what the GPU did (traces of torch's profiler), the steps and parts are the GPU's.\n"
    "COMPUTE: computing kernels ran. EXPOSED: only NCCL's did, WAIT of that while another rank's kernel of the same\n"
    "call had not begun. COPY: only copies ran. IDLE: nothing did. OVERLAP is the part of NCCL's time that computing\n"
    "kernels cover. COMPUTE, EXPOSED, COPY and IDLE add up.\n\n"
    "--by peer lists messages between each two ranks. RECEIVER WAITED is how long the receiver waited for the\n"
    "sender to begin, SENDER WAITED how long a sender without a buffer waited for the receiver. A wait for several\n"
    "messages counts once, for the message that was ready last.\n\n"
    "Exit status: 0 done, 2 usage, 3 if any file could not be read.";

std::optional<StatsBy> ParseBy(const std::string& text) {
  StatsBy by{false, false, false, false, false};
  const std::vector<std::string> words = absl::StrSplit(text, ',');
  for (const std::string& word : words) {
    if (word == "op")
      by.op = true;
    else if (word == "size")
      by.size = true;
    else if (word == "comm")
      by.communicator = true;
    else if (word == "rank")
      by.rank = true;
    else if (word == "site")
      by.site = true;
    else
      return std::nullopt;
  }
  return by;
}

Tally::Site SiteOf(const Piece& piece, std::uint64_t address, SiteLines* lines) {
  Tally::Site site{reader::SiteText(piece, address), lines->PlaceOf(piece, address)};
  if (site.source && !site.source->file.empty()) site.text = diagnosis::LineText(*site.source);
  return site;
}

// One process's pieces, slice by slice. The next piece is read meanwhile, where there are not too many processes for
// that.
class Slices {
 public:
  Slices(const ProcessRecording& process, bool ahead, Tally* tally)
      : process_(process), pieces_(process), ahead_(ahead), tally_(tally) {
    if (ahead_) Order();
  }

  // False: there is no more.
  bool Next() {
    begin_ = end_;
    while (begin_ == piece_.calls.size()) {
      if (!Turn()) return false;
      begin_ = 0;
    }
    end_ = std::min(begin_ + kCallsOfSlice, piece_.calls.size());
    return true;
  }
  std::int64_t time_ns() const { return piece_.calls[begin_].entered_ns + piece_.realtime_minus_monotonic_ns; }
  void Add() { tally_->Add(piece_, &known_, process_.rank(), begin_, end_); }
  const std::vector<reader::Failure>& failures() const { return failures_; }

 private:
  static constexpr std::size_t kCallsOfSlice = 512;  // what waits for its partners stays in the cache
  struct Read {
    bool any = false;
    Piece piece;
  };

  Read ReadOne() {
    Read read;
    read.any = pieces_.Next(&read.piece, &failures_);
    return read;
  }
  void Order() {
    next_ = std::async(std::launch::async, [this] { return ReadOne(); });
  }
  bool Turn() {
    Read read = ahead_ ? next_.get() : ReadOne();
    if (!read.any) return false;
    piece_ = std::move(read.piece);
    known_ = tally_->KnownOf(piece_);
    end_ = 0;
    if (ahead_) Order();
    return true;
  }

  const ProcessRecording& process_;
  PieceReader pieces_;
  const bool ahead_;
  Tally* tally_;
  std::vector<reader::Failure> failures_;
  std::future<Read> next_;
  Piece piece_;
  Tally::Known known_;
  std::size_t begin_ = 0, end_ = 0;
};

void AddAll(const Recording& recording, Tally* tally, std::vector<reader::Failure>* failures) {
  constexpr std::size_t kMostAhead = 64;  // processes
  std::vector<std::unique_ptr<Slices>> sources;
  using Head = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  for (const ProcessRecording& process : recording.processes()) {
    sources.push_back(std::make_unique<Slices>(process, recording.processes().size() <= kMostAhead, tally));
    tally->AddLost(process.rank(), process.lost_calls());
    if (sources.back()->Next()) heads.push({sources.back()->time_ns(), sources.size() - 1});
  }
  while (!heads.empty()) {
    const std::size_t i = heads.top().second;
    heads.pop();
    sources[i]->Add();
    if (sources[i]->Next()) heads.push({sources[i]->time_ns(), i});
  }
  for (const auto& source : sources)
    failures->insert(failures->end(), source->failures().begin(), source->failures().end());
}

struct PrintRequest {
  Attempts attempts;
  std::size_t most = 0;
  bool json = false;
};

int PrintBreakdown(const Breakdown& breakdown, const Recording& recording, const PrintRequest& request) {
  if (request.json)
    PrintJson({{"schema", "ncclwatch.stats/1"},
               {"attempts", ToJson(request.attempts)},
               {"steps", StepsJson(breakdown)},
               {"ranks", RanksJson(breakdown)}});
  else
    WriteOut(BreakdownText(breakdown, request.most));
  return recording.run().failures.empty() && breakdown.failures.empty() ? kDone : kUnreadable;
}

int PrintSteps(const Command& self, const Recording& recording, const PrintRequest& request) {
  SayFailures(recording.run().failures);
  const Breakdown breakdown = BreakdownOf(recording);
  SayFailures(breakdown.failures);
  if (!breakdown.ranks.empty()) return PrintBreakdown(breakdown, recording, request);
  const auto steps = StepsOf(recording);
  if (!steps.ok()) return Unreadable(self, steps.status());
  if (request.json)
    PrintJson({{"schema", "ncclwatch.stats/1"}, {"attempts", ToJson(request.attempts)}, {"steps", StepsJson(*steps)}});
  else
    WriteOut(StepsText(*steps, request.most));
  return recording.run().failures.empty() ? kDone : kUnreadable;
}

int PrintPeers(const Recording& recording, const PrintRequest& request) {
  std::vector<reader::Failure> failures = recording.run().failures;
  const Peers peers = PeersOf(recording, &failures);
  SayFailures(failures);
  if (request.json) {
    auto result = PeersJson(peers);
    result["attempts"] = ToJson(request.attempts);
    PrintJson(result);
  } else {
    WriteOut(PeersText(peers, request.most));
  }
  return failures.empty() ? kDone : kUnreadable;
}

}  // namespace

int Stats(const Command& self, const Arguments& arguments) {
  KeepFreedMemory();
  Options options(self, kStatsHelp);
  std::vector<std::string> words;
  std::string by_text = "op,size,comm";
  std::size_t most = 40;
  bool json = false, steps = false;
  AttemptChoice choice;
  options
      .add_option("DIR|FILE", words, "recordings, run directories and black boxes (default: the newest run directory)")
      ->type_name("");
  options
      .add_option("--by", by_text,
                  "what tells rows apart: op, size, comm, rank, site (default: op,size,comm); or peer: messages")
      ->type_name("LIST");
  options.add_option("--top", most, "only the N rows that took most of the time (default: 40; 0: all)")->type_name("N");
  options.add_flag("--steps", steps, "steps instead of calls, the newest N of --top");
  DeclareAttempt(&options, &choice);
  options.add_flag("--json", json, "print JSON");
  if (const auto status = options.Read(arguments)) return *status;
  const bool peers = by_text == "peer";
  const auto by = peers ? std::optional(StatsBy()) : ParseBy(by_text);
  if (!by)
    return UsageError(self, "--by takes a list of op, size, comm, rank and site, or peer, not '" + by_text + "'");
  if (peers && steps) return UsageError(self, "--by peer means nothing with --steps");

  const auto located = Locate(words, choice);
  if (!located.ok()) return Unreadable(self, located.status());
  SayWhichAttempt(located->attempts);
  const Recording recording = Recording::Open(located->paths);
  std::vector<reader::Failure> failures = recording.run().failures;
  if (steps) return PrintSteps(self, recording, {located->attempts, most, json});
  if (peers) return PrintPeers(recording, {located->attempts, most, json});
  SiteLines lines(recording.Images());
  Tally tally(*by, [&lines](const Piece& piece, std::uint64_t address) { return SiteOf(piece, address, &lines); });
  AddAll(recording, &tally, &failures);
  SayFailures(failures);
  if (recording.processes().empty()) return kUnreadable;
  if (json) {
    auto result = StatsJson(tally, *by);
    result["attempts"] = ToJson(located->attempts);
    PrintJson(result);
  } else {
    WriteOut(StatsText(tally, *by, most));
  }
  return failures.empty() ? kDone : kUnreadable;
}

}  // namespace ncclwatch::analyzer
