#include "watchdog/watch/process/logged_events.h"

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "core/report/json_writer.h"
#include "core/text/compact_json.h"
#include "watchdog/log/log.h"

namespace ncclwatch::watch {
namespace {

template <std::size_t N>
std::string TextOf(const char (&text)[N]) {
  return {text, strnlen(text, N)};
}

std::string AsJsonString(const std::string& text) {
  std::string json = diagnosis::JsonWriter(diagnosis::JsonWriter::Layout::kOneLine).String(text).Take();
  json.pop_back();  // the line's end
  return json;
}

}  // namespace

LoggedEvents::Outcome LoggedEvents::Take(std::uint64_t number) {
  const format::Event& from = events_->entries[number % format::kEventCapacity];
  const std::uint64_t commit = from.commit.load(std::memory_order_acquire);
  if (commit != number + 1) return commit > number + 1 ? Outcome::kLost : Outcome::kNotYet;
  const std::int64_t at_ns = from.at_ns, step = from.step;
  const bool cut = from.cut != 0;
  const std::string type = TextOf(from.type), details = TextOf(from.details);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (from.commit.load(std::memory_order_relaxed) != number + 1) return Outcome::kLost;

  std::optional<std::string> json = details.empty() ? "{}" : CompactJson(details);
  if (cut || !json) ++cut_, json = AsJsonString(details);
  const format::Identity& identity = context_.own->identity;
  const std::int64_t to_realtime_ns = context_.own->clock.realtime_minus_monotonic_ns.load(std::memory_order_relaxed);
  file_.Write({at_ns + to_realtime_ns, type, step, identity.rank, identity.host, *json});
  return Outcome::kTaken;
}

void LoggedEvents::Update() {
  if (events_ == nullptr) return;
  const std::uint64_t made = events_->made.load(std::memory_order_acquire);
  if (events_->written.load(std::memory_order_relaxed) == made) return;
  if (made - next_ > format::kEventCapacity) {
    lost_ += made - next_ - format::kEventCapacity;
    next_ = made - format::kEventCapacity;
  }
  for (; next_ < made; ++next_) {
    const Outcome outcome = Take(next_);
    if (outcome == Outcome::kNotYet) break;
    lost_ += outcome == Outcome::kLost;
  }
  SayLosses();
  if (file_.Flush()) events_->written.store(next_, std::memory_order_release);
}

void LoggedEvents::SayLosses() {
  if (lost_ > 0 && !std::exchange(said_lost_, true))
    log::Warn("events of the program are lost: more than {} came in a few hundredths of a second",
              format::kEventCapacity);
  if (cut_ > 0 && !std::exchange(said_cut_, true))
    log::Warn("details of an event are kept as text: they are no JSON, or longer than {} bytes",
              sizeof(format::Event::details) - 1);
}

}  // namespace ncclwatch::watch
