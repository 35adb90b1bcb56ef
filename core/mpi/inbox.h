// What each receive of MPI got, and as what it had been called: from whom, of which tag, after which probe. Told from
// the records of a job that does not move any more.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/calls/mpi_message.h"
#include "core/mpi/channels.h"

namespace ncclwatch::diagnosis {

// The clocks of two hosts, at the most.
inline constexpr std::int64_t kClocksApartNs = 10'000'000;

// A receive, and the message that has met it.
struct Delivery {
  const Member* sender = nullptr;
  const reader::Call* send = nullptr;
  const reader::Call* receive = nullptr;
  const reader::Call* probe = nullptr;  // the receive names what this one had found; null: it was called as it is
  bool looked = false;                  // a probe that may have found another message came right before it
  const reader::Call* shown = nullptr;  // the first probe that may have told of the message; null: none
  std::uint64_t posted = 0;             // slot of the call that decided which message it is
  bool any_source = false;
  bool any_tag = false;

  bool Takes(std::uint32_t from, std::int32_t tag) const {
    return (any_source || static_cast<std::int32_t>(from) == receive->root) && (any_tag || tag == receive->tag);
  }
};

struct Message {
  const reader::Call* send = nullptr;
  int delivery = -1;  // index into Inbox::deliveries; -1: nobody has received it
};

// Of one rank of one communicator.
struct Inbox {
  int comm = -1;
  const Member* receiver = nullptr;
  std::vector<Delivery> deliveries;                    // as posted
  std::map<std::uint32_t, std::vector<Message>> from;  // by sender, as sent
  std::map<std::uint32_t, const Member*> senders;
};

struct Inboxes {
  std::vector<Inbox> all;
  // Receipts up to here (on the view's clock) are not all known with their sends: rings have lost calls.
  std::int64_t unclear_until_ns = INT64_MIN;
};

Inboxes MakeInboxes(const View& view, const Channels& channels);

}  // namespace ncclwatch::diagnosis
