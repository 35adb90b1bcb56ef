// Both ends of each message, and the calls that wait for messages: since when each could have ended.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

#include "core/reader/image.h"

namespace ncclwatch::analyzer {

class MessageWaits {
 public:
  struct Message {
    int from = -1, to = -1;  // ranks as they were given
    std::uint64_t bytes = 0;
  };
  struct Wait {
    int rank = -1;
    std::uint64_t slot = 0;                        // of the call that waits
    std::int64_t entered_ns = 0, returned_ns = 0;  // of the wall clock, as all here; NCCL's return before they wait:
                                                   // INT64_MAX
    std::int64_t ready_ns = 0;                     // from when on nobody else held it up; 0: nobody did
    std::uint64_t bytes = 0;                       // of the message that was ready last
    int peer = -1;                                 // its other end
    bool sends = false;                            // it waits for a receiver
  };
  // Whose sends of up to `eager` bytes end before they are received.
  explicit MessageWaits(std::uint64_t eager) : eager_(eager) {}

  std::function<void(const Message&)> on_message;  // once both ends are known
  std::function<void(const Wait&)> on_wait;        // once all that it waits for are

  // Calls of a process in order; those of several processes in any. `on`: the call's communicator.
  void Add(const reader::Call& call, const reader::Communicator* on, int rank, std::size_t process,
           std::int64_t real_ns);
  std::uint64_t open() const { return messages_.size(); }  // messages of which one end is missing

 private:
  using Place = std::pair<std::size_t, std::uint64_t>;  // process, slot of the call that waits; and the half of it
  using Channel = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t>;
  struct End {
    std::int64_t entered_ns = 0;
    int rank = -1;
    Place waits{kNobody, 0};
    bool synchronous = false;
  };
  struct Known {
    End sender, receiver;
    std::uint64_t bytes = 0;
  };
  struct OpenWait {
    Wait wait;
    std::uint32_t messages = 0;  // that are not settled
    bool entered = false;        // its own call has come
    bool unclear = false;        // any of several may end it
  };
  static constexpr std::size_t kNobody = SIZE_MAX;

  void AddMessage(const reader::Call& call, const reader::Communicator& on, const Wait& own, std::size_t process);
  Place WaitOf(const reader::Call& call, const Wait& own, std::size_t process);
  void Enter(Place place, const Wait& own, bool unclear);
  void Settle(const Known& message);
  void SettleOne(const End& end, const End& other, std::int64_t ready_ns, std::uint64_t bytes, bool sends);
  void Finish(Place place, OpenWait* open);

  const std::uint64_t eager_;
  absl::flat_hash_map<Channel, Known> messages_;
  absl::flat_hash_map<Place, OpenWait> waits_;
};

}  // namespace ncclwatch::analyzer
