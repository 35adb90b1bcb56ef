// Wildcard receives that another message could have met, where that would have changed what follows. That workers'
// answers may come in any order is how such receives are meant: it is a race only if with the other message some
// receive would have waited for ever, or got what does not fit it, or if the other message was never received.
#pragma once

#include <optional>
#include <vector>

#include "core/mpi/inbox.h"
#include "core/mpi/order.h"

namespace ncclwatch::diagnosis {

enum class Harm {
  kDoesNotFit,       // the rival, into this receive
  kOtherDoesNotFit,  // the message, into the receive that got the rival
  kStarves,          // the receive that got the rival gets nothing
  kLeftOver,         // the rival was received by nobody
  kHangs,            // it has come about: a receive waits for what was taken, and the rival lies there
};

struct Race {
  int comm = -1;
  const Member* receiver = nullptr;
  Delivery taken;
  const Member* rival_sender = nullptr;
  const reader::Call* rival = nullptr;  // its send
  const reader::Call* other = nullptr;  // the other receive (kHangs: or probe); null: there is none
  Harm harm{};
  // Nothing that the program may do about it: it cannot know whose message it got before it calls the other receive,
  // and no message or call makes the rival follow on the message.
  bool sure = false;
};

class Races {
 public:
  explicit Races(const View& view) : view_(view) {}

  // Once all have called MPI_Finalize: the first race of each receiver on each communicator.
  std::vector<Race> OfEndedJob();
  // What a rank waits for in this receive or probe, which names its sender, an earlier wildcard receive has taken.
  std::optional<Race> Behind(int comm, const Member& member, const reader::Call& waiting);
  // The same where the two are waited for together, and it is not told yet what the first has got: a rank that stands
  // still although there is a message for each.
  std::optional<Race> BehindBoth(int comm, const Member& member, const reader::Call& waiting);

 private:
  struct Look;

  bool Prepare();
  std::optional<Race> FirstIn(const Inbox& inbox);
  std::optional<Race> RaceFor(const Inbox& inbox, int taken, std::uint32_t sender, const Message& rival, Look* look);
  std::optional<Harm> HarmOf(const Inbox& inbox, int taken, const Message& rival);
  bool CanBeServed(const Inbox& inbox, int taken, const Message& rival);
  bool Ordered(const Inbox& inbox, const Delivery& taken, const Member& sender, const reader::Call& rival, Look* look);
  bool ReachesBack(const Inbox& inbox, const Delivery& taken) const;
  bool Spent() const;
  Order& order();

  const View& view_;
  bool prepared_ = false, usable_ = false;
  std::int64_t known_since_ns_ = INT64_MIN;
  std::optional<Channels> channels_;
  Inboxes inboxes_;
  std::optional<Order> order_;
  std::uint64_t cost_ = 0;
};

}  // namespace ncclwatch::diagnosis
