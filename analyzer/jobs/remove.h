// Removing run directories: never a live one, never through a link, never what is not ncclwatch's own.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/files/descriptor.h"

namespace ncclwatch::analyzer {

struct RemovalRequest {
  absl::Duration older_than;
  bool dry_run = false;
  bool empty_too = false;  // places without a single black box
};

struct Removal {
  enum class What { kRemoved, kWouldRemove, kAlive, kTooYoung, kNotOurs, kPartly };
  std::string path;
  What what{};
  std::uint64_t bytes = 0;  // of the files removed
  std::string reason;       // for kNotOurs, kPartly
};

// Places (a job's first directory, with all attempts and runs below it): those that `words` name, or that lie in the
// directories named; without words all that ncclwatch knows of on this machine.
std::vector<std::string> RemovablePlaces(const std::vector<std::string>& words);

Removal RemovePlace(const std::string& place, const RemovalRequest& request);

// A shared lock on the directory itself says "in use" where no box does yet: `ncclwatch run` holds one from before the
// first rank starts. None if it cannot be had; closing the descriptor gives it back.
Descriptor HoldPlace(const std::string& place);

}  // namespace ncclwatch::analyzer
