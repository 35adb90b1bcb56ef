// Who is waited for, now: told by the black boxes of a node, which are only read. Of a rank the others wait if all
// others that are seen here have entered a collective which it has not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "watchdog/reader/box.h"

namespace ncclwatch::meanwhile {

class Waits {
 public:
  // late: the processes that it is to tell of; they do not wait for one another.
  Waits(const std::string& directory, const std::set<std::uint32_t>& late);

  // A number that stays the same as long as the others wait in the same call.
  std::optional<std::uint64_t> For(std::uint32_t pid) const;
  // Takes up communicators that were made meanwhile.
  void Refresh();
  // That made its newest call; 0: not known.
  std::uint32_t ThreadOf(std::uint32_t pid) const;

 private:
  struct Member {
    const reader::MappedBox* box = nullptr;
    std::uint32_t index = 0, generation = 0;
    std::uint64_t entered() const;
    bool there() const;
  };
  struct Meeting {  // one communicator of a late process
    Member late;
    std::uint32_t pid = 0;
    std::vector<Member> others;
  };

  std::set<std::uint32_t> late_;
  std::vector<std::unique_ptr<reader::MappedBox>> boxes_;
  std::vector<Meeting> meetings_;
};

}  // namespace ncclwatch::meanwhile
