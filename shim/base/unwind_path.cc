#include "shim/base/unwind_path.h"

#include <atomic>

// The frames are other functions'.
#define NCCLWATCH_UNCHECKED __attribute__((no_sanitize("address", "thread", "undefined")))

namespace ncclwatch::shim {
namespace {

constexpr std::size_t kWays = 64;  // a tool has one for each function that it wraps
constexpr std::size_t kTries = 8;
constexpr std::size_t kWord = sizeof(std::uint64_t);

enum class State : std::uint8_t { kFree, kFilling, kReady };

NCCLWATCH_UNCHECKED std::uint64_t At(std::uintptr_t place) {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(place), __ATOMIC_RELAXED);
}

}  // namespace

struct UnwindPath::Place {
  std::atomic<State> state{State::kFree};
  UnwindPath path;
};

UnwindPath::Place& UnwindPath::PlaceOf(std::uint64_t site, std::uintptr_t length, std::size_t tried) {
  static constinit Place places[kWays] = {};
  return places[((site ^ site >> 6 ^ length / kWord) + tried) % kWays];
}

UnwindPath::UnwindPath(const Entrance& from, std::uintptr_t to)
    : from_(from.frame),
      length_(to - from.frame),
      site_(from.site),
      frame_pointer_(from.frame),
      seen_(to > from.frame && At(from.frame + kWord) == from.site) {}

void UnwindPath::Add(std::uintptr_t place, bool is_frame_pointer, std::uint64_t value) {
  seen_ = words_ < kMostWords;
  if (seen_) word_[words_++] = {place - from_, is_frame_pointer, value};
}

void UnwindPath::FollowFramePointers(std::uintptr_t below) {
  while (seen_ && frame_pointer_ != 0 && frame_pointer_ < below) {
    const std::uint64_t value = At(frame_pointer_);
    const bool leads_up = value > frame_pointer_ && value < from_ + length_ && value % kWord == 0;
    if (leads_up) Add(frame_pointer_, true, value - from_);
    frame_pointer_ = leads_up ? value : 0;
  }
}

void UnwindPath::Pass(std::uintptr_t stack_pointer, std::uint64_t address) {
  const std::uintptr_t place = stack_pointer - kWord, end = from_ + length_ + kWord;
  if (!seen_ || whole_) return;
  // Not where a signal came in, which may be on another stack, or where the processor keeps return addresses elsewhere.
  seen_ = place > passed_ && place <= end && At(place) == address;
  passed_ = place;
  if (place <= from_ + kWord) return;
  FollowFramePointers(place);
  if (place == end)
    whole_ = seen_;
  else if (seen_)
    Add(place, false, address);
}

NCCLWATCH_UNCHECKED bool UnwindPath::IsGone(std::uintptr_t from) const {
  for (std::size_t i = 0; i < words_; ++i) {
    const std::uint64_t there = At(from + word_[i].place);
    if ((word_[i].is_frame_pointer ? there - from : there) != word_[i].value) return false;
  }
  return true;
}

void UnwindPath::Keep() const {
  for (std::size_t tried = 0; whole_ && tried < kTries; ++tried) {
    Place& place = PlaceOf(site_, length_, tried);
    State free = State::kFree;
    if (!place.state.compare_exchange_strong(free, State::kFilling, std::memory_order_relaxed)) continue;
    place.path = *this;
    place.state.store(State::kReady, std::memory_order_release);  // acquired by IsKnownUnwindPath
    return;
  }
}

bool IsKnownUnwindPath(const Entrance& from, const Entrance& to) {
  const std::uintptr_t length = to.frame - from.frame;
  for (std::size_t tried = 0; tried < kTries; ++tried) {
    const UnwindPath::Place& place = UnwindPath::PlaceOf(from.site, length, tried);
    const State state = place.state.load(std::memory_order_acquire);
    if (state == State::kFree) return false;
    const UnwindPath& path = place.path;
    if (state == State::kReady && path.site_ == from.site && path.length_ == length && path.IsGone(from.frame))
      return At(to.frame + kWord) == to.site;
  }
  return false;
}

}  // namespace ncclwatch::shim
