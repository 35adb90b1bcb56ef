// The collector of this node beside a job: `ncclwatch collect` as a process of its own, started again if it is killed.
#pragma once

#include <absl/status/status.h>
#include <sys/types.h>

#include <string>

namespace ncclwatch::analyzer {

class CollectorProcess {
 public:
  CollectorProcess() = default;
  ~CollectorProcess();
  CollectorProcess(const CollectorProcess&) = delete;
  CollectorProcess& operator=(const CollectorProcess&) = delete;

  // Of the run directory `place`, into `to`.
  absl::Status Start(const std::string& place, const std::string& to, std::uint64_t most_bytes);
  // Now and then: one that was killed is followed by another.
  void Look();
  // It writes what is still to be written, and ends.
  void Finish();

 private:
  bool Spawn();
  std::string place_, to_, most_;
  pid_t pid_ = -1;  // none
  int killed_ = 0;
};

// Everything that a run directory holds for readers, so that `to` alone is enough for them.
void CopyEvidence(const std::string& place, const std::string& to);

}  // namespace ncclwatch::analyzer
