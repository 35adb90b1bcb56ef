// Names of the places that recorded calls come from.
#pragma once

#include <absl/container/node_hash_map.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "analyzer/jobs/site_lines.h"
#include "analyzer/recording/merge.h"
#include "analyzer/trace/row.h"

namespace ncclwatch::analyzer {

struct Site {
  std::string text;                              // "module+0x1234", or the address
  std::optional<diagnosis::SourcePlace> source;  // none: in no module
  std::string line;                              // "train.cc:212 in Step" where that is known, else the text
};

class Sites {
 public:
  explicit Sites(const Recording& recording) : lines_(recording.Images()) {}
  // Null: the call has none. Lives as long as this.
  const Site* Of(const MergedCall& merged);
  void FillIn(const MergedCall& merged, Row* row);

 private:
  SiteLines lines_;
  absl::node_hash_map<std::pair<std::size_t, std::uint64_t>, Site> known_;  // by process and address
};

}  // namespace ncclwatch::analyzer
