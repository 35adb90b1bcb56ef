#include "watchdog/watch/base/journal.h"

namespace ncclwatch::watch {
namespace {

void Store(std::int64_t* to, std::int64_t value) { __atomic_store_n(to, value, __ATOMIC_RELAXED); }

}  // namespace

bool Journal::Observe(const reader::Observation& observation) {
  const std::uint32_t index = own_->observations_used.load(std::memory_order_relaxed);
  if (index >= own_->observations.count) return false;
  auto* entry =
      reinterpret_cast<format::Observation*>(reinterpret_cast<char*>(own_) + own_->observations.offset) + index;
  entry->commit.store(0, std::memory_order_release);
  entry->at_ns = observation.at_ns;
  entry->pid = observation.pid;
  entry->rank = observation.rank;
  entry->start_time = observation.start_time;
  entry->what = static_cast<std::uint32_t>(observation.what);
  entry->exit_flags = observation.exit_flags;
  entry->exit_signal = observation.exit_signal;
  entry->exit_status = observation.exit_status;
  entry->place = observation.place;
  entry->reserved = 0;
  entry->commit.store(index + 1, std::memory_order_release);  // pairs with the reader's acquire
  own_->observations_used.store(index + 1, std::memory_order_release);
  return true;
}

reader::LeaderState Journal::leader_state() const {
  const format::LeaderState& from = own_->leader_state;  // this thread is its only writer
  reader::LeaderState leader_state;
  leader_state.suspect_after_ns = from.suspect_after_ns;
  leader_state.likely_after_ns = from.likely_after_ns;
  leader_state.verdict_at_ns = from.verdict_at_ns;
  leader_state.longest_wait_ns = from.longest_wait_ns;
  leader_state.waits = from.waits;
  leader_state.generation = from.generation;
  leader_state.job_minus_monotonic_ns = from.job_minus_monotonic_ns;
  return leader_state;
}

void Journal::WriteState(const reader::LeaderState& leader_state) {
  format::LeaderState& to = own_->leader_state;
  const std::uint64_t sequence = to.sequence.load(std::memory_order_relaxed) | 1;
  to.sequence.store(sequence, std::memory_order_relaxed);
  // The odd number must be seen before any of the fields: a release fence would not order later stores, this exchange
  // does on every machine that we run on; the reader checks the sequence again after its acquire loads.
  to.sequence.exchange(sequence, std::memory_order_acq_rel);
  Store(&to.suspect_after_ns, leader_state.suspect_after_ns);
  Store(&to.likely_after_ns, leader_state.likely_after_ns);
  Store(&to.verdict_at_ns, leader_state.verdict_at_ns);
  Store(&to.longest_wait_ns, leader_state.longest_wait_ns);
  __atomic_store_n(&to.waits, leader_state.waits, __ATOMIC_RELAXED);
  __atomic_store_n(&to.generation, leader_state.generation, __ATOMIC_RELAXED);
  Store(&to.job_minus_monotonic_ns, leader_state.job_minus_monotonic_ns);
  to.sequence.store(sequence + 1, std::memory_order_release);
}

}  // namespace ncclwatch::watch
