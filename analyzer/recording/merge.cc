#include "analyzer/recording/merge.h"

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <queue>
#include <utility>

#include "analyzer/console/print.h"
#include "analyzer/jobs/observe.h"
#include "analyzer/recording/packed_calls.h"
#include "analyzer/recording/worker.h"

namespace ncclwatch::analyzer {
namespace {

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
  ProcessCalls(const ProcessRecording& process, const MergeRequests& requests, const Keeping& keeping, Worker* ahead)
      : process_(process), requests_(requests), pieces_(process), packed_(keeping.packed), ahead_(ahead) {
    now_ns_ = UntilNs(process.process());
    if (requests.segment)
      pieces_.wants = [this](const SegmentIndex& index) { return requests_.segment(index, process_.rank()); };
    AskForNext();
  }

  bool Next() {
    for (++at_; at_ >= slice_->calls.size(); at_ = 0) {
      if (!NextSlice() && !NextPiece()) return false;
    }
    return true;
  }
  const reader::Call& call() const { return slice_->calls[at_]; }
  std::int64_t time_ns() const { return call().entered_ns + slice_->piece->realtime_minus_monotonic_ns; }
  void AddTo(MergedBatch* batch, std::uint64_t batch_number, std::size_t number) {
    if (std::exchange(in_batch_, batch_number) != batch_number) batch->slices.push_back(slice_);
    batch->calls.push_back({process_, number, *slice_->piece, call(), CommunicatorOf(call()), now_ns_});
  }
  const std::vector<reader::Failure>& failures() const { return failures_; }

 private:
  static constexpr std::uint64_t kInNone = UINT64_MAX;
  struct Slice {
    std::shared_ptr<const Piece> piece;  // without its calls
    std::vector<reader::Call> calls;     // the wanted ones, by time
  };
  struct Read {
    bool any = false;
    Slice slice;
    std::optional<PackedCalls> packed;  // in place of the slice's calls
    std::vector<reader::Failure> failures;
  };

  Read ReadOne() {
    Read read;
    const auto piece = std::make_shared<Piece>();
    read.any = pieces_.Next(piece.get(), &read.failures);
    std::vector<reader::Call> calls = std::move(piece->calls);
    piece->calls.clear();
    read.slice.piece = piece;
    const auto wants = requests_.calls ? requests_.calls(*piece) : nullptr;
    const auto earlier = [](const reader::Call& a, const reader::Call& b) { return a.entered_ns < b.entered_ns; };
    if (!wants && !packed_ && std::is_sorted(calls.begin(), calls.end(), earlier)) {
      read.slice.calls = std::move(calls);
      return read;
    }
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < calls.size(); ++i)
      if (!wants || wants(calls[i])) order.push_back(i);
    // Threads of one process take slots in another order than they read the clock.
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return earlier(calls[a], calls[b]); });
    if (packed_) {
      read.packed.emplace(calls, order);
    } else {
      for (const std::uint32_t i : order) read.slice.calls.push_back(calls[i]);
    }
    return read;
  }
  void AskForNext() {
    if (ahead_) next_ = ahead_->Ask([this] { return ReadOne(); });
  }
  void Use(Slice slice) {
    slice_ = std::make_shared<const Slice>(std::move(slice));
    in_batch_ = kInNone;
  }
  bool NextSlice() {
    if (!packed_calls_) return false;
    std::vector<reader::Call> calls = packed_calls_->TakeSlice();
    if (calls.empty()) return false;
    Use({slice_->piece, std::move(calls)});
    return true;
  }
  bool NextPiece() {
    Read read = ahead_ ? next_.get() : ReadOne();
    failures_.insert(failures_.end(), read.failures.begin(), read.failures.end());
    if (!read.any) return false;
    Use(std::move(read.slice));
    packed_calls_ = std::move(read.packed);
    last_ = nullptr;
    AskForNext();
    return true;
  }
  const reader::Communicator* CommunicatorOf(const reader::Call& call) {
    const auto is_it = [&](const reader::Communicator& one) {
      return one.index == call.communicator && one.generation == call.generation;
    };
    if (last_ && is_it(*last_)) return last_;
    const std::vector<reader::Communicator>& all = slice_->piece->communicators;
    const auto found = std::find_if(all.begin(), all.end(), is_it);
    return found == all.end() ? nullptr : last_ = &*found;
  }

  const ProcessRecording& process_;
  const MergeRequests& requests_;
  PieceReader pieces_;
  const bool packed_;
  Worker* const ahead_;  // null: the next piece is read when it is needed
  std::int64_t now_ns_ = 0;
  std::vector<reader::Failure> failures_;
  std::future<Read> next_;
  std::shared_ptr<const Slice> slice_ = std::make_shared<const Slice>();  // at hand
  std::optional<PackedCalls> packed_calls_;                               // that come after it
  std::uint64_t in_batch_ = kInNone;                                      // the last one that has the slice
  std::size_t at_ = SIZE_MAX - 1;
  const reader::Communicator* last_ = nullptr;  // that a call was on
};

}  // namespace

void MergeCalls(const Recording& recording, const MergeRequests& requests, std::vector<reader::Failure>* failures,
                absl::FunctionRef<bool(MergedBatch*)> take) {
  MergedBatch batch;
  std::uint64_t number = 0;  // of the batch
  std::vector<std::unique_ptr<ProcessCalls>> sources;
  using Head = std::pair<std::int64_t, std::size_t>;  // of what comes next of each
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  const Keeping keeping = KeepingOf(recording);
  std::optional<Worker> ahead;  // ends before the sources that it reads for
  if (keeping.ahead) ahead.emplace();
  for (const ProcessRecording& process : recording.processes())
    sources.push_back(std::make_unique<ProcessCalls>(process, requests, keeping, ahead ? &*ahead : nullptr));
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i]->Next()) heads.push({sources[i]->time_ns(), i});
  bool more = true;
  const auto add = [&](std::size_t i) {
    sources[i]->AddTo(&batch, number, i);
    if (batch.calls.size() < MergedBatch::kCalls) return;
    more = take(&batch);
    batch.Clear();
    ++number;
  };
  while (more && !heads.empty()) {
    const std::size_t i = heads.top().second;
    heads.pop();
    bool any = true;
    // Many calls of one process may stand before the first of the others.
    for (add(i); more && (any = sources[i]->Next()); add(i))
      if (!heads.empty() && heads.top() < Head{sources[i]->time_ns(), i}) break;
    if (more && any) heads.push({sources[i]->time_ns(), i});
  }
  if (more && !batch.calls.empty()) take(&batch);
  for (const auto& source : sources)
    failures->insert(failures->end(), source->failures().begin(), source->failures().end());
}

void SayLost(const Recording& recording) {
  for (const ProcessRecording& process : recording.processes())
    if (!process.segments().empty() && process.lost_calls() != 0)
      Complain("", "rank {}: {} calls are missing, {}", process.rank(), process.lost_calls(), LostText(process.lost()));
}

}  // namespace ncclwatch::analyzer
