// Calls counted and summed by operation, communicator, type and size, call site, and by rank; who waited for whom.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/recording/meeting.h"
#include "analyzer/recording/recording.h"
#include "core/model/finding.h"

namespace ncclwatch::analyzer {

// Durations in buckets of 1/32 of their size: quantiles are right to 1.6 %.
class Durations {
 public:
  void Add(std::int64_t ns);
  std::int64_t Quantile(double part) const;  // of the middle of its bucket; 0 without any
  std::int64_t most() const { return most_; }
  std::uint64_t count() const { return count_; }

 private:
  std::vector<std::uint32_t> buckets_;
  std::uint64_t count_ = 0;
  std::int64_t most_ = 0;
};

struct StatsKey {
  functions::Function function{};
  std::uint8_t dtype = format::kNoType;
  std::int32_t rank = -1;          // -1: of all
  std::uint64_t communicator = 0;  // identity; 0: none
  std::uint64_t bytes = 0;         // of one call, by one rank
  std::uint32_t site = 0;          // index of Tally::sites()
  bool operator==(const StatsKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H hash, const StatsKey& key) {
    return H::combine(std::move(hash), key.function, key.dtype, key.rank, key.communicator, key.bytes, key.site);
  }
};

struct StatsSum {
  std::uint64_t calls = 0;
  std::int64_t total_ns = 0;      // that its callers were in it
  std::int64_t under_way_ns = 0;  // from calls to their ends: of requests more, which overlap
  std::int64_t wait_ns = 0;       // for ranks that came later
  Durations durations;            // under way
  // Of NCCL's calls whose kernel was timed.
  Durations kernels;
  std::int64_t kernel_ns = 0;
  // Of collectives and messages all of whose sides were: the shortest kernel waits for nobody.
  std::uint64_t transfers = 0;
  std::int64_t transfer_ns = 0;
  std::optional<std::string> payload;     // of those of which it is known; empty: they differ
  std::optional<format::KernelTime> way;  // algorithm, protocol and channels of all of them, as far as they are alike

  // Of all calls: where kernels were timed, as long as those on average.
  std::int64_t TotalNs() const;
};

struct RankSum {
  std::uint64_t calls = 0, bytes = 0;
  std::int64_t total_ns = 0, wait_ns = 0;
  std::int64_t awaited_ns = 0;  // others waited for it
  std::uint64_t lost = 0;
};

struct StatsComm {
  std::string label;
  std::uint32_t size = 0;
};

// What tells rows apart; what does not is zero in their keys.
struct StatsBy {
  bool op = true, size = true, communicator = true, rank = false, site = false;
};

// Calls inside the library; not thread-safe.
class Tally {
 public:
  // A line of the program, or else a place in a module, or the bare address.
  struct Site {
    std::string text;
    std::optional<diagnosis::SourcePlace> source;
  };
  using SiteOf = std::function<Site(const Piece&, std::uint64_t address)>;
  Tally(StatsBy by, SiteOf site_of) : by_(by), site_of_(std::move(site_of)) {}
  // Of a piece, which outlives it.
  struct Known {
    absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, const reader::Communicator*> communicators;
    absl::flat_hash_map<std::uint64_t, std::uint32_t> sites;  // by address
  };
  Known KnownOf(const Piece& piece);
  // Calls [begin, end) of the piece. Slices of all ranks that belong together in time are best added together.
  void Add(const Piece& piece, Known* known, int rank, std::size_t begin, std::size_t end);
  void AddLost(int rank, std::uint64_t calls) { ranks_[rank].lost += calls; }

  std::uint64_t calls() const { return calls_; }
  std::vector<std::pair<StatsKey, const StatsSum*>> sums() const;  // by total time, the most first
  const std::map<int, RankSum>& ranks() const { return ranks_; }
  const std::vector<Site>& sites() const { return sites_; }
  const absl::flat_hash_map<std::uint64_t, StatsComm>& communicators() const { return communicators_; }

 private:
  // A collective, or a message, of which not all sides have been seen.
  struct Meeting {
    struct Side {
      std::int64_t entered_ns, over_ns;  // of the wall clock
      std::int64_t waits_ns;    // since when its caller waits: with a request, since the call that waits for it
      std::uint64_t waiter;     // slot + 1 of that call if it waits for several messages, else 0
      std::uint64_t kernel_ns;  // 0: not timed
      int rank;
      std::size_t sum;
    };
    std::vector<Side> sides;
    bool of_nccl = false;  // whose calls return before they have waited
  };
  void Meet(const reader::Communicator& on, const reader::Call& call, const Meeting::Side& side);
  void Settle(const Meeting& meeting);
  std::int64_t WaitedNs(const Meeting::Side& side, std::size_t sum, std::int64_t until_ns);
  void SettleTransfer(const Meeting& meeting);

  const StatsBy by_;
  const SiteOf site_of_;
  std::uint64_t calls_ = 0;
  std::size_t SumOf(const StatsKey& key);
  std::uint32_t SiteIndexOf(const Piece& piece, std::uint64_t address, Known* known);

  absl::flat_hash_map<StatsKey, std::size_t> known_;
  std::deque<StatsSum> sums_;
  std::vector<Site> sites_;
  absl::flat_hash_map<std::string, std::uint32_t> site_indexes_;  // by whole path and text
  std::map<int, RankSum> ranks_;
  absl::flat_hash_map<std::uint64_t, StatsComm> communicators_;
  absl::flat_hash_map<MeetingKey, Meeting> meetings_;
  // By rank, waiter and sum: until when its wait has been counted. A wait for several requests is lost time once.
  absl::flat_hash_map<std::tuple<int, std::uint64_t, std::size_t>, std::int64_t> waited_until_;
};

}  // namespace ncclwatch::analyzer
