// The lease of a run directory (format/lease.h), through which its processes are told what is wanted of them.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "ncclwatch/format/lease.h"

namespace ncclwatch::analyzer {

struct Unmap {
  void operator()(format::Lease* lease) const;
};
// Mapped for as long as this lives. Thread-safe: its words are atomics.
using LeaseFile = std::unique_ptr<format::Lease, Unmap>;

// <directory>/lease, or why it cannot be used.
absl::StatusOr<LeaseFile> OpenLease(const std::string& directory);

// Whether all its processes shall watch.
absl::Status SwitchWatching(const std::string& directory, bool on);

}  // namespace ncclwatch::analyzer
