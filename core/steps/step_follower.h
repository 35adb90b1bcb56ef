// Follows one live box with a cursor and cuts its calls into steps as they come, by positions alone: a step is so many
// collectives of one communicator, whatever else is called between them. Each record is read once, a second after it
// was made; where the loop is fast most records are passed over.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/reader/box.h"
#include "core/steps/messages.h"
#include "core/steps/reported_steps.h"

namespace ncclwatch::diagnosis {

// What a live box's calls repeat, and which of them count its steps.

struct Loop {
  std::uint64_t communicator = 0;  // identity: of those that come back in every step the largest one
  std::uint32_t size = 0;          // its ranks
  std::uint64_t each = 0;          // its collectives in one step
  bool sure = false;               // not perhaps a layer of a first, long step
  std::uint64_t first = 0;         // of them, before the first step
  bool stretches = false;          // the calls repeat no steps: these are kStretch collectives each
};

// Of the newest records, `most` at most. Expensive: microseconds a record.
std::optional<Loop> FindLoop(const reader::MappedBox& box, std::uint64_t most);

// 0: what is called there cannot be matched with other ranks' calls.
std::uint64_t IdentityOf(const reader::MappedBox& box, std::uint32_t index, std::uint32_t generation);

class StepFollower {
 public:
  // box outlives it. Steps are told `apart_ns` from one another, or farther.
  StepFollower(const reader::MappedBox& box, std::int64_t apart_ns) : box_(box), apart_ns_(apart_ns) {}

  const reader::MappedBox& box() const { return box_; }
  const std::optional<Loop>& loop() const { return loop_; }
  void Follow(const Loop& loop);
  // Many of the last steps were not as those before them: the loop may have become another one.
  bool Unsteady() const { return odd_ >= kOdd; }

  // Reads at most so many records. Returns how many were read.
  std::size_t Poll(std::int64_t now_ns, std::size_t most);
  // What is to be told since the last call.
  ReportedRank Take();

 private:
  static constexpr int kOdd = 16;

  struct Channel {
    ReportedChannel reported;
    std::uint64_t id = 0;
    bool compared = false;      // several ranks, and not grown
    std::uint32_t calls = 0;    // in the step that is told
    std::uint32_t usual = 0;    // in the one told before
    std::uint32_t to_come = 0;  // until the next arrival begins
    std::size_t arrival = 0;    // the last one: index into open_arrivals_
    std::size_t arrivals = 0;   // of this step
  };
  struct OpenArrival {
    std::size_t channel = 0;
    ReportedKind kind;
    std::uint64_t position = 0;
    std::int64_t entered_ns = 0, inside_ns = -1, kernel_ns = -1;
  };

  bool IsSettled(const reader::Call& call, std::uint64_t behind, std::int64_t now_ns) const;
  void See(const reader::Call& call);
  void SeeCollective(const reader::Call& call);
  void SeeMessage(const reader::Call& call);
  void Cut(const reader::Call& call);
  void Close(const reader::Call& next);
  void SpaceOut(std::int64_t duration_ns);
  void AddArrival(const reader::Call& call, std::uint32_t each, Channel* channel);
  std::size_t PeerOf(const reader::Call& call);
  void AddUnit(const MessageUnit& unit);
  std::uint16_t KindOf(const ReportedKind& kind);
  bool IsUneven(const Channel& channel) const;
  std::size_t ChannelOf(const ReportedChannel& reported);

  const reader::MappedBox& box_;
  const std::int64_t apart_ns_;
  std::optional<Loop> loop_;
  std::uint64_t cursor_ = 0;
  std::vector<Channel> channels_;
  std::vector<std::size_t> collectives_;  // by index of the box's table: its channel, plus one

  bool open_ = false;     // where the step begins was seen, and nothing has been missed since
  bool telling_ = false;  // ... and it is to be told
  ReportedStep step_;
  std::vector<OpenArrival> open_arrivals_;
  MessageGrouper messages_;
  std::uint64_t began_slot_ = 0;
  bool IsTold(std::uint64_t number) const { return Roundness(number) >= std::countr_zero(every_); }
  std::uint64_t every_ = 1;  // one step in so many is told: a power of two
  std::int64_t usual_ns_ = 0;
  int odd_ = 0;
  ReportedRank reported_;
};

}  // namespace ncclwatch::diagnosis
