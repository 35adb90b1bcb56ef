// What a replay has measured: of one rank, then of all.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <vector>

#include "analyzer/player/base/play.h"

namespace ncclwatch::analyzer {

struct MeasuredKind {
  std::uint64_t calls = 0, checked = 0, wrong = 0;
  std::vector<std::int64_t> took_ns, recorded_ns;  // of the calls whose time is known
};

class Measured : public player::Listener {
 public:
  void Took(const player::Call& call, std::int64_t ns) override;
  void Arrived(const player::Call& call, Data data) override;
  void NotPlayed(const player::Call& call) override;

  std::uint64_t wrong() const;
  // Into the directory of the replay, as one whole.
  absl::Status Write(const std::string& path) const;
  absl::Status Add(const std::string& path);  // what another rank has written

  std::map<player::Kind, MeasuredKind> kinds;
  std::map<std::string, std::uint64_t> not_played;  // by operation
};

}  // namespace ncclwatch::analyzer
