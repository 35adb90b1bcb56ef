// What comes after what in a job of MPI, as far as MPI itself says so: by the order of calls on each rank, by messages,
// by sends that wait for their receive, by collectives. Where that is not known (windows, files, groups that talk to
// each other, NCCL) whatever may have ended after it began is taken to come after, so that what is said to be unordered
// is.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/mpi/inbox.h"

namespace ncclwatch::diagnosis {

class Order {
 public:
  Order(const View& view, const Inboxes& inboxes);

  // For each process the first of its moments that comes after the start.
  class After {
   public:
    bool Enters(int process, const reader::Call& call) const { return first_[process] <= EnterOf(call); }

   private:
    friend class Order;
    std::vector<std::uint64_t> first_;
  };
  // After a message has met the receive.
  After Met(const Inbox& inbox, const Delivery& delivery);
  // After the rank has called it.
  After Entered(const Member& member, const reader::Call& call);
  // What all questions so far have looked at.
  std::uint64_t cost() const { return cost_; }

 private:
  // A rank's calls follow one another: call number s is entered at moment 2s and over at 2s + 1.
  static std::uint64_t EnterOf(const reader::Call& call) { return 2 * call.slot; }
  static constexpr std::uint64_t kNever = UINT64_MAX;
  struct Moment {
    int process = -1;
    std::uint64_t at = kNever;
  };
  // All that leads into it comes before all that it leads to.
  struct Source {
    std::uint64_t at = 0;
    int hub = -1;
  };
  // Calls of a process that may order others in ways that are not known: only time, on the view's clock, tells what
  // they cannot have come before.
  struct Unknown {
    // By moment; the earliest of its time and those of all later ones.
    std::vector<std::pair<std::uint64_t, std::int64_t>> entered;
    // By time; the first of its moment and those of all later ones.
    std::vector<std::pair<std::int64_t, std::uint64_t>> over;
    std::int64_t EnteredFrom(std::uint64_t at) const;
    std::uint64_t OverFrom(std::int64_t ns) const;
    void Sort();
  };

  int NewHub();
  void From(int hub, int process, std::uint64_t at);
  void To(int hub, int process, std::uint64_t at);
  std::uint64_t KnownAt(int process, const Delivery& delivery) const;
  std::uint64_t OverOf(int process, const reader::Call& call) const;
  void AddMessages(const Inboxes& inboxes);
  void AddCollectives(int comm);
  void AddCreations();
  void AddUnknown();
  void AddUnknown(int process, const reader::Call& call);
  void AddWindows(int process, bool locks);
  After Spread(const std::vector<Moment>& from);

  const View& view_;
  std::vector<std::vector<Source>> sources_;  // by process, in order
  std::vector<std::vector<Moment>> hubs_;
  std::vector<Unknown> unknown_;  // by process
  std::int64_t clocks_apart_ns_ = 0;
  std::vector<std::uint32_t> visited_;  // by hub: number of the question
  std::uint32_t question_ = 0;
  std::uint64_t cost_ = 0;
};

}  // namespace ncclwatch::diagnosis
