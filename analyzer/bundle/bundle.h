// Everything that a person far away needs to look into a job: what it left, the verdict on it, and what this machine
// is.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/bundle/tar_zst.h"

namespace ncclwatch::analyzer {

struct BundleWish {
  std::vector<std::string> paths;                   // of the job, as Locate() gives them
  std::vector<std::string> logs;                    // files and folders of them
  bool redact = false;                              // host names, addresses, paths, arguments
  std::uint64_t most_bytes = 10ull << 30;           // of one file, unpacked: larger ones are left out
  const nlohmann::ordered_json* machine = nullptr;  // what is known of this machine
};

struct Bundled {
  std::vector<std::pair<std::string, std::uint64_t>> files;   // names in the bundle, bytes
  std::vector<std::pair<std::string, std::string>> left_out;  // names in the bundle, why
};

// ncclwatch.bundle/1.
nlohmann::ordered_json ManifestOf(const BundleWish& wish, const Bundled& bundled);

// Unavailable: `write` could not write. Not found: there was nothing to put in.
absl::Status WriteBundle(const BundleWish& wish, TarZst::Write write, Bundled* bundled);

}  // namespace ncclwatch::analyzer
