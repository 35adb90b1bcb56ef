// The lease on leadership, mapped from the run directory (format/lease.h). One object a process; one thread uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/reader/guard.h"
#include "ncclwatch/format/lease.h"
#include "watchdog/descriptors/directory.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::watch {

inline constexpr std::int64_t kLeaseLength_ns = 1'000'000'000;  // a holder silent for this long may be overtaken

struct HolderProcess {
  std::uint64_t holder = 0;  // the word that it was read with
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;  // low 48 bits
  bool Is(const rundir::ProcessStat& process) const { return (process.start_time & kStartBits) == start_time; }
  static constexpr std::uint64_t kStartBits = (std::uint64_t{1} << 48) - 1;
};

class LeaseFile {
 public:
  // Makes or joins <directory>/lease. Null and a reason in *why if it cannot be.
  static std::unique_ptr<LeaseFile> Open(const descriptors::Directory& directory, std::string* why);
  ~LeaseFile();
  LeaseFile(const LeaseFile&) = delete;
  LeaseFile& operator=(const LeaseFile&) = delete;

  bool Mine() const { return mine_ != 0 && Holder() == mine_; }
  std::uint64_t Holder() const { return lease_->holder.load(std::memory_order_acquire); }
  std::int32_t HolderPid() const { return static_cast<std::int32_t>(Holder() & 0xffffffffu); }
  std::uint32_t Generation() const { return static_cast<std::uint32_t>(Holder() >> 32); }

  // The holder as a process that /proc here can speak of. None: nobody, one of another boot or pid namespace, or one
  // that has not said yet.
  std::optional<HolderProcess> NearHolder() const;

  // May the lease be taken: nobody holds it, or its holder has been silent for too long?
  bool Open(std::int64_t now_ns) const;
  // Takes it from exactly `holder`; false if another candidate was quicker.
  bool Take(std::uint64_t holder, std::int64_t now_ns);
  void Beat(std::int64_t now_ns) { lease_->heartbeat_ns.store(now_ns, std::memory_order_release); }
  // Whether its file was cut short: what is seen here is this process's alone.
  bool Lost() const { return reader::guard::Lost(guard_); }
  // Lets the next candidate have it at once.
  void Release();

  format::Lease& words() { return *lease_; }

 private:
  LeaseFile() = default;
  format::Lease* lease_ = nullptr;
  int guard_ = -1;
  std::uint32_t place_ = 0;       // of this process, as in holder_place
  std::uint64_t start_time_ = 0;  // likewise; 0 unknown
  std::uint64_t mine_ = 0;        // what holder is while this process leads
};

}  // namespace ncclwatch::watch
