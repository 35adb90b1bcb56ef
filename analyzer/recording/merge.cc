#include "analyzer/recording/merge.h"

#include <algorithm>
#include <future>
#include <memory>
#include <queue>
#include <utility>

#include "analyzer/console/print.h"
#include "analyzer/jobs/observe.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kMostAhead = 32;  // processes of which the next piece is read while one is looked at

// The wanted calls of one process, by time.
class ProcessCalls {
 public:
  ProcessCalls(const ProcessRecording& process, const MergeWishes& wishes, bool ahead)
      : process_(process), wishes_(wishes), pieces_(process), ahead_(ahead) {
    now_ns_ = UntilNs(process.process());
    if (wishes.segment)
      pieces_.wants = [this](const SegmentIndex& index) { return wishes_.segment(index, process_.rank()); };
    if (ahead_) ReadAhead();
  }

  bool Next() {
    for (++at_; at_ >= order_.size(); at_ = 0) {
      if (!Turn()) return false;
    }
    return true;
  }
  const reader::Call& call() const { return piece_.calls[order_[at_]]; }
  std::int64_t time_ns() const { return call().entered_ns + piece_.realtime_minus_monotonic_ns; }
  MergedCall Merged(std::size_t number) { return {process_, number, piece_, call(), CommunicatorOf(call()), now_ns_}; }
  const std::vector<reader::Failure>& failures() const { return failures_; }

 private:
  struct Read {
    bool any = false;
    Piece piece;
    std::vector<std::uint32_t> order;  // of the wanted ones among its calls
    std::vector<reader::Failure> failures;
  };

  Read ReadOne() {
    Read read;
    read.any = pieces_.Next(&read.piece, &read.failures);
    const std::vector<reader::Call>& calls = read.piece.calls;
    const auto wants = wishes_.calls ? wishes_.calls(read.piece) : nullptr;
    for (std::uint32_t i = 0; i < calls.size(); ++i)
      if (!wants || wants(calls[i])) read.order.push_back(i);
    // Threads of one process take slots in another order than they read the clock.
    const auto before = [&](std::uint32_t a, std::uint32_t b) { return calls[a].entered_ns < calls[b].entered_ns; };
    if (!std::is_sorted(read.order.begin(), read.order.end(), before))
      std::stable_sort(read.order.begin(), read.order.end(), before);
    return read;
  }
  void ReadAhead() {
    next_ = std::async(std::launch::async, [this] { return ReadOne(); });
  }
  bool Turn() {
    Read read = ahead_ ? next_.get() : ReadOne();
    order_.clear();
    failures_.insert(failures_.end(), read.failures.begin(), read.failures.end());
    if (!read.any) return false;
    piece_ = std::move(read.piece);
    order_ = std::move(read.order);
    last_ = nullptr;
    if (ahead_) ReadAhead();
    return true;
  }
  const reader::Communicator* CommunicatorOf(const reader::Call& call) {
    const auto is_it = [&](const reader::Communicator& one) {
      return one.index == call.communicator && one.generation == call.generation;
    };
    if (last_ && is_it(*last_)) return last_;
    const auto found = std::find_if(piece_.communicators.begin(), piece_.communicators.end(), is_it);
    return found == piece_.communicators.end() ? nullptr : last_ = &*found;
  }

  const ProcessRecording& process_;
  const MergeWishes& wishes_;
  PieceReader pieces_;
  const bool ahead_;
  std::int64_t now_ns_ = 0;
  std::vector<reader::Failure> failures_;
  std::future<Read> next_;
  Piece piece_;
  std::vector<std::uint32_t> order_;
  std::size_t at_ = SIZE_MAX - 1;
  const reader::Communicator* last_ = nullptr;  // that a call was on
};

}  // namespace

void MergeCalls(const Recording& recording, const MergeWishes& wishes, std::vector<reader::Failure>* failures,
                absl::FunctionRef<bool(const MergedCall&)> take) {
  std::vector<std::unique_ptr<ProcessCalls>> sources;
  using Head = std::pair<std::int64_t, std::size_t>;  // of what comes next of each
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  const bool ahead = recording.processes().size() <= kMostAhead;
  for (const ProcessRecording& process : recording.processes())
    sources.push_back(std::make_unique<ProcessCalls>(process, wishes, ahead));
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i]->Next()) heads.push({sources[i]->time_ns(), i});
  bool more = true;
  while (more && !heads.empty()) {
    const std::size_t i = heads.top().second;
    heads.pop();
    bool any = true;
    // Many calls of one process may stand before the first of the others.
    while ((more = take(sources[i]->Merged(i))) && (any = sources[i]->Next()))
      if (!heads.empty() && heads.top() < Head{sources[i]->time_ns(), i}) break;
    if (more && any) heads.push({sources[i]->time_ns(), i});
  }
  for (const auto& source : sources)
    failures->insert(failures->end(), source->failures().begin(), source->failures().end());
}

void SayLost(const Recording& recording) {
  for (const ProcessRecording& process : recording.processes())
    if (!process.segments().empty() && process.lost_calls() != 0)
      Complain("", "rank {}: {} calls are missing, {}", process.rank(), process.lost_calls(), LostText(process.lost()));
}

}  // namespace ncclwatch::analyzer
