#include "analyzer/export/calls/exporter.h"

#include <array>
#include <future>
#include <utility>

#include "analyzer/recording/merge.h"
#include "analyzer/recording/worker.h"

namespace ncclwatch::analyzer::exporting {

absl::StatusOr<std::uint64_t> CallExporter::AddAll(const MergedBatch& batch, const Filter& filter) {
  std::uint64_t added = 0;
  for (const MergedCall& merged : batch.calls) {
    const Facts facts = FactsOf(merged);
    if (!filter.Wants(facts)) continue;
    if (absl::Status status = Add(merged, facts); !status.ok()) return status;
    ++added;
  }
  return added;
}

// Calls are merged while those before them are added on another thread.
absl::StatusOr<std::uint64_t> CallExporter::Write(const Filter& filter, Progress* progress,
                                                  std::vector<reader::Failure>* failures) {
  struct Underway {
    MergedBatch calls;
    std::future<absl::StatusOr<std::uint64_t>> added;
  };
  std::array<Underway, 16> batches;
  std::uint64_t next = 0, seen = 0, added = 0;
  absl::Status status;
  Worker worker;
  const auto settle = [&](Underway* batch) {
    if (!batch->added.valid()) return;
    const auto count = batch->added.get();
    status.Update(count.status());
    added += count.value_or(0);
  };
  MergeCalls(source_.recording, filter.Requests(), failures, [&](MergedBatch* calls) {
    progress->Done(seen += calls->calls.size());
    Underway& batch = batches[next++ % batches.size()];
    settle(&batch);
    if (!status.ok()) return false;
    std::swap(batch.calls, *calls);
    batch.added = worker.Ask([&] { return AddAll(batch.calls, filter); });
    return true;
  });
  for (std::size_t i = 0; i < batches.size(); ++i) settle(&batches[next++ % batches.size()]);
  if (status.ok()) status = Finish();
  if (!status.ok()) return status;
  return added;
}

}  // namespace ncclwatch::analyzer::exporting
