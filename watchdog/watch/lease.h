// The lease on leadership, mapped from the run directory (format/lease.h). One object a process; one thread uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ncclwatch/format/lease.h"

namespace ncclwatch::watch {

inline constexpr std::int64_t kLeaseLength_ns = 1'000'000'000;  // a holder silent for this long may be overtaken

class LeaseFile {
 public:
  // Makes or joins <directory>/lease. Null and a reason in *why if it cannot be.
  static std::unique_ptr<LeaseFile> Open(const std::string& directory, std::string* why);
  ~LeaseFile();
  LeaseFile(const LeaseFile&) = delete;
  LeaseFile& operator=(const LeaseFile&) = delete;

  bool Mine() const { return mine_ != 0 && Holder() == mine_; }
  std::uint64_t Holder() const { return lease_->holder.load(std::memory_order_acquire); }
  std::int32_t HolderPid() const { return static_cast<std::int32_t>(Holder() & 0xffffffffu); }
  std::uint32_t Generation() const { return static_cast<std::uint32_t>(Holder() >> 32); }

  // May the lease be taken: nobody holds it, or its holder has been silent for too long?
  bool Open(std::int64_t now_ns) const;
  // Takes it from exactly `holder`; false if another candidate was quicker.
  bool Take(std::uint64_t holder, std::int64_t now_ns);
  void Beat(std::int64_t now_ns) { lease_->heartbeat_ns.store(now_ns, std::memory_order_release); }
  // Lets the next candidate have it at once.
  void Release();

  format::Lease& words() { return *lease_; }

 private:
  LeaseFile() = default;
  format::Lease* lease_ = nullptr;
  std::uint64_t mine_ = 0;  // what holder is while this process leads
};

}  // namespace ncclwatch::watch
