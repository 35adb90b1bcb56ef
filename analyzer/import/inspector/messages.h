// The messages of one communicator: which send meets which receive, and in which all exchange with all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/import/inspector/instants.h"
#include "analyzer/import/inspector/joined.h"

namespace ncclwatch::analyzer::import::inspector {

struct Message {
  std::size_t from = 0, to = 0;  // rows
  const Operation *send = nullptr, *receive = nullptr;
  std::int64_t at_ns = 0;
};

// Each member sends to every other one, three at least, equally often, as experts exchange tokens: all wait for the
// last one, as in a collective.
struct Exchange {
  std::vector<std::pair<std::size_t, std::int64_t>> arrivals;  // row, time in the kernel of its longest message
  std::int64_t at_ns = 0;                                      // on the clock of the first of them
};

class Messages {
 public:
  explicit Messages(const Joined& joined);

  bool is_exchange() const { return is_exchange_; }
  std::set<std::pair<std::size_t, std::size_t>> Pairs() const;  // rows, the lower one first
  // The n-th send of one rank to another meets the n-th receive there. *incomplete: whose other side was not recorded.
  std::vector<Message> Matched(Timing timing, std::size_t* incomplete) const;
  std::vector<Exchange> Exchanges(Timing timing) const;

 private:
  using Indices = std::vector<std::size_t>;  // of a member's operations
  struct Sides {
    Indices sends, receives;  // of the first row, of the second row
  };

  bool IsExchange() const;
  // Of `count` the i-th, if `all` of them are to be compared with others: from the end if the oldest may be lost.
  std::size_t At(const Indices& all, std::size_t count, std::size_t i) const {
    return all[oldest_lost_ ? all.size() - count + i : i];
  }

  const Joined& joined_;
  std::map<std::pair<std::size_t, std::size_t>, Sides> pairs_;  // by the rows that send and receive
  bool oldest_lost_ = false;
  bool is_exchange_ = false;
};

}  // namespace ncclwatch::analyzer::import::inspector
