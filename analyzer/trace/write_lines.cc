#include "analyzer/trace/write_lines.h"

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <algorithm>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "analyzer/recording/merge.h"
#include "analyzer/recording/worker.h"

namespace ncclwatch::analyzer {
namespace {

using WriteText = absl::FunctionRef<absl::Status(std::string_view, std::uint64_t)>;

constexpr std::size_t kMostThreads = 8, kBatchesOfThread = 3;

// The names of call sites, which are looked up by several threads.
struct SharedSites {
  Sites& sites;
  std::mutex mutex;
};

// Writes lines on a thread of its own.
class LineThread {
 public:
  LineThread(LineForm form, const Filter& filter, SharedSites* sites)
      : writer_(form), filter_(filter), sites_(*sites) {}
  // Of those of the calls that are wanted; how many they are.
  std::uint64_t Append(const MergedBatch& batch, ByteBuffer* out) {
    std::uint64_t lines = 0;
    for (const MergedCall& merged : batch.calls) {
      const Facts facts = FactsOf(merged);
      if (!filter_.Wants(facts)) continue;
      writer_.Append(facts, SiteOf(merged), out);
      ++lines;
    }
    return lines;
  }
  Worker& worker() { return worker_; }

 private:
  const std::string& SiteOf(const MergedCall& merged) {
    const auto [found, made] = cells_.try_emplace({merged.number, merged.call.site});
    if (!made) return found->second;
    const std::lock_guard lock(sites_.mutex);
    return found->second = writer_.SiteCells(sites_.sites.Of(merged));
  }

  LineWriter writer_;
  const Filter& filter_;
  SharedSites& sites_;
  absl::flat_hash_map<std::pair<std::size_t, std::uint64_t>, std::string> cells_;  // by process and address
  Worker worker_;
};

// Calls on their way: a batch is with the merge, then with a thread that makes lines of it, then with the one that
// writes these in order.
class LinePipeline {
 public:
  LinePipeline(LineForm form, const Filter& filter, Sites* sites, WriteText write)
      : write_(write), sites_{*sites, {}}, batches_(kBatchesOfThread * Threads()) {
    for (std::size_t i = 0; i < Threads(); ++i) threads_.push_back(std::make_unique<LineThread>(form, filter, &sites_));
  }

  // False: writing has failed.
  bool Add(MergedBatch* calls) {
    Batch& batch = batches_[next_ % batches_.size()];
    LineThread& thread = *threads_[next_++ % threads_.size()];
    if (!Settle(&batch)) return false;
    std::swap(batch.calls, *calls);
    batch.lines = thread.worker().Ask([&batch, &thread] {
      batch.text.Clear();
      return thread.Append(batch.calls, &batch.text);
    });
    batch.written = writer_.Ask([this, &batch]() -> absl::StatusOr<std::uint64_t> {
      const std::uint64_t lines = batch.lines.get();
      if (failed_) return 0;
      absl::Status status = write_(batch.text.view(), lines);
      failed_ = !status.ok();
      if (failed_) return status;
      return lines;
    });
    return true;
  }
  absl::StatusOr<std::uint64_t> Finish() {
    for (std::size_t i = 0; i < batches_.size(); ++i) Settle(&batches_[next_++ % batches_.size()]);
    if (!status_.ok()) return status_;
    return lines_;
  }

 private:
  struct Batch {
    MergedBatch calls;
    ByteBuffer text;
    std::future<std::uint64_t> lines;
    std::future<absl::StatusOr<std::uint64_t>> written;
  };

  static std::size_t Threads() { return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostThreads); }
  // Waits until it is written.
  bool Settle(Batch* batch) {
    if (batch->written.valid()) {
      const absl::StatusOr<std::uint64_t> lines = batch->written.get();
      status_.Update(lines.status());
      lines_ += lines.value_or(0);
    }
    return status_.ok();
  }

  const WriteText write_;
  SharedSites sites_;
  std::vector<Batch> batches_;
  std::uint64_t next_ = 0, lines_ = 0;
  absl::Status status_;
  bool failed_ = false;  // of the thread that writes
  // It waits for the others: they end first.
  Worker writer_;
  std::vector<std::unique_ptr<LineThread>> threads_;
};

}  // namespace

absl::StatusOr<std::uint64_t> WriteLines(const Recording& recording, const Filter& filter, LineForm form, Sites* sites,
                                         std::vector<reader::Failure>* failures, WriteText write) {
  LinePipeline pipeline(form, filter, sites, write);
  MergeCalls(recording, filter.Requests(), failures, [&](MergedBatch* batch) { return pipeline.Add(batch); });
  return pipeline.Finish();
}

}  // namespace ncclwatch::analyzer
