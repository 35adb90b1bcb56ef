// Communicators of MPI as OTF2 defines them: groups of processes, which messages and collectives name.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <otf2/otf2.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/recording/recording.h"

namespace ncclwatch::analyzer::exporting {

class Otf2Communicators {
 public:
  explicit Otf2Communicators(const Recording& recording);

  // None: not all its ranks are recorded, so that OTF2 cannot name them.
  std::optional<OTF2_CommRef> Of(std::uint64_t communicator) const;
  // That are in one, by job rank: their numbers in the recording.
  const std::vector<std::size_t>& Processes() const { return processes_; }
  std::vector<std::string> Names() const;  // of their definitions
  using TextOf = std::function<OTF2_StringRef(const std::string&)>;
  using LocationOf = std::function<OTF2_LocationRef(std::size_t process)>;
  void Write(OTF2_GlobalDefWriter* to, const TextOf& text, const LocationOf& location) const;

 private:
  struct Known {
    std::string name;
    std::vector<std::size_t> processes;  // by rank in it
  };

  std::vector<Known> all_;
  std::vector<std::size_t> processes_;
  absl::flat_hash_map<std::uint64_t, OTF2_CommRef> number_of_;
};

}  // namespace ncclwatch::analyzer::exporting
