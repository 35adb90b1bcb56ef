// The lease of a run directory (format/lease.h), through which its processes are told what is wanted of them.
#pragma once

#include <cstdint>
#include <string>

#include "ncclwatch/format/lease.h"

namespace ncclwatch::analyzer {

// Mapped for as long as this lives. Thread-safe: its words are atomics.
class LeaseFile {
 public:
  // Of <directory>/lease. Check reason() first: empty if it is there.
  explicit LeaseFile(const std::string& directory);
  ~LeaseFile();
  LeaseFile(const LeaseFile&) = delete;
  LeaseFile& operator=(const LeaseFile&) = delete;

  const std::string& reason() const { return reason_; }  // why not, in one line
  format::Lease* operator->() const { return lease_; }

 private:
  format::Lease* lease_ = nullptr;
  std::string reason_;
};

// Whether all its processes shall watch. Empty if it is set now; else why it could not be, in one line.
std::string SwitchWatching(const std::string& directory, bool on);

}  // namespace ncclwatch::analyzer
