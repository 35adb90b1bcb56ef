#include "analyzer/recording/merge.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <thread>
#include <utility>

#include "analyzer/console/print.h"
#include "analyzer/jobs/observe.h"
#include "analyzer/recording/packed_calls.h"

namespace ncclwatch::analyzer {
namespace {

// One thread that does what it is asked for, in order: reads what is needed next while its caller looks at what it has.

class ReadAhead {
 public:
  ReadAhead() : thread_([this] { Run(); }) {}
  // What was asked for and has not begun is not done.
  ~ReadAhead() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  template <typename Task>
  std::future<std::invoke_result_t<Task>> Ask(Task task) {
    auto packaged = std::make_shared<std::packaged_task<std::invoke_result_t<Task>()>>(std::move(task));
    {
      const std::lock_guard lock(mutex_);
      tasks_.emplace_back([packaged] { (*packaged)(); });
    }
    changed_.notify_one();
    return packaged->get_future();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return over_ || !tasks_.empty(); });
      if (over_) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool over_ = false;
  std::thread thread_;  // the last: it uses the others
};

constexpr std::size_t kMostUnpacked = 256u << 20;     // bytes of calls of all processes, two pieces of each
constexpr std::size_t kMostPackedAhead = 384u << 20;  // likewise, packed
constexpr std::size_t kPackedCall = 10;               // bytes, about

// How the pieces of so many processes are kept in memory.
struct Keeping {
  bool packed = false;
  bool ahead = true;  // the next piece is read while one is looked at
};

Keeping KeepingOf(const Recording& recording) {
  std::size_t calls = 0;
  for (const ProcessRecording& process : recording.processes()) {
    std::uint64_t largest = 0;
    for (const ProcessRecording::Segment& segment : process.segments()) {
      const format::SegmentHeader& header = segment.place->index.header;
      largest = std::max(largest, header.end_slot - std::min(header.end_slot, header.begin_slot));
    }
    calls += largest;
  }
  return {.packed = 2 * calls * sizeof(reader::Call) > kMostUnpacked,
          .ahead = 2 * calls * kPackedCall <= kMostPackedAhead};
}

// The wanted calls of one process, by time.
class ProcessCalls {
 public:
  ProcessCalls(const ProcessRecording& process, const MergeRequests& requests, const Keeping& keeping, ReadAhead* ahead)
      : process_(process), requests_(requests), pieces_(process), packed_(keeping.packed), ahead_(ahead) {
    now_ns_ = UntilNs(process.process());
    if (requests.segment)
      pieces_.wants = [this](const SegmentIndex& index) { return requests_.segment(index, process_.rank()); };
    AskForNext();
  }

  bool Next() {
    for (++at_; at_ >= calls_.size(); at_ = 0) {
      if (!NextSlice() && !NextPiece()) return false;
    }
    return true;
  }
  const reader::Call& call() const { return calls_[at_]; }
  std::int64_t time_ns() const { return call().entered_ns + piece_.realtime_minus_monotonic_ns; }
  MergedCall Merged(std::size_t number) { return {process_, number, piece_, call(), CommunicatorOf(call()), now_ns_}; }
  const std::vector<reader::Failure>& failures() const { return failures_; }

 private:
  struct Read {
    bool any = false;
    Piece piece;                      // without its calls
    std::vector<reader::Call> calls;  // the wanted ones, by time, or
    std::optional<PackedCalls> packed;
    std::vector<reader::Failure> failures;
  };

  Read ReadOne() {
    Read read;
    read.any = pieces_.Next(&read.piece, &read.failures);
    std::vector<reader::Call> calls = std::move(read.piece.calls);
    read.piece.calls.clear();
    std::vector<std::uint32_t> order;
    const auto wants = requests_.calls ? requests_.calls(read.piece) : nullptr;
    for (std::uint32_t i = 0; i < calls.size(); ++i)
      if (!wants || wants(calls[i])) order.push_back(i);
    // Threads of one process take slots in another order than they read the clock.
    const auto before = [&](std::uint32_t a, std::uint32_t b) { return calls[a].entered_ns < calls[b].entered_ns; };
    const bool sorted = std::is_sorted(order.begin(), order.end(), before);
    if (!sorted) std::stable_sort(order.begin(), order.end(), before);
    if (packed_) {
      read.packed.emplace(calls, order);
    } else if (sorted && order.size() == calls.size()) {
      read.calls = std::move(calls);
    } else {
      for (const std::uint32_t i : order) read.calls.push_back(calls[i]);
    }
    return read;
  }
  void AskForNext() {
    if (ahead_) next_ = ahead_->Ask([this] { return ReadOne(); });
  }
  bool NextSlice() {
    if (!slices_) return false;
    calls_ = slices_->TakeSlice();
    return !calls_.empty();
  }
  bool NextPiece() {
    Read read = ahead_ ? next_.get() : ReadOne();
    calls_.clear();
    failures_.insert(failures_.end(), read.failures.begin(), read.failures.end());
    if (!read.any) return false;
    piece_ = std::move(read.piece);
    calls_ = std::move(read.calls);
    slices_ = std::move(read.packed);
    last_ = nullptr;
    AskForNext();
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
  const MergeRequests& requests_;
  PieceReader pieces_;
  const bool packed_;
  ReadAhead* const ahead_;  // null: the next piece is read when it is needed
  std::int64_t now_ns_ = 0;
  std::vector<reader::Failure> failures_;
  std::future<Read> next_;
  Piece piece_;                        // that `calls_` are of
  std::vector<reader::Call> calls_;    // at hand
  std::optional<PackedCalls> slices_;  // that come after them
  std::size_t at_ = SIZE_MAX - 1;
  const reader::Communicator* last_ = nullptr;  // that a call was on
};

}  // namespace

void MergeCalls(const Recording& recording, const MergeRequests& requests, std::vector<reader::Failure>* failures,
                absl::FunctionRef<bool(const MergedCall&)> take) {
  std::vector<std::unique_ptr<ProcessCalls>> sources;
  using Head = std::pair<std::int64_t, std::size_t>;  // of what comes next of each
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  const Keeping keeping = KeepingOf(recording);
  std::optional<ReadAhead> ahead;  // ends before the sources that it reads for
  if (keeping.ahead) ahead.emplace();
  for (const ProcessRecording& process : recording.processes())
    sources.push_back(std::make_unique<ProcessCalls>(process, requests, keeping, ahead ? &*ahead : nullptr));
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
