// What has been observed, kept in a file so that an interrupted search goes on where it stopped.
#pragma once

#include <absl/status/status.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "analyzer/bisect/trial.h"

namespace ncclwatch::bisect {

nlohmann::ordered_json ToJson(const Observation& observation);

class State {
 public:
  // `path` empty: nothing is kept. `question`: what is asked; a file of another question is refused.
  absl::Status Open(const std::string& path, const std::string& question);
  // The same search asks the same questions in the same order: answers that are known are given again.
  const Observation* Known(const std::string& question);
  void Add(const Observation& observation);
  const std::vector<Observation>& all() const { return all_; }

 private:
  std::string path_;
  std::vector<Observation> known_, all_;
  std::size_t next_ = 0;
};

}  // namespace ncclwatch::bisect
