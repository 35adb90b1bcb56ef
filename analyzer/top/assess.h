// What is wrong with a job and how long its steps take: found out beside the screen, since it takes its time.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "analyzer/top/job.h"
#include "core/slow/topology.h"

namespace ncclwatch::analyzer::top {

// As the leader has judged it, where it has; else as its boxes tell it now. Without boxes nothing is known.
Assessment Assess(const std::string& directory, const diagnosis::Topology& topology);

// Assesses again and again, at most every two seconds and with at most a hundredth of a core.
class Assessor {
 public:
  Assessor(std::string directory, diagnosis::Topology topology);
  ~Assessor();  // waits for an assessment under way
  Assessor(const Assessor&) = delete;
  Assessor& operator=(const Assessor&) = delete;
  Assessment Newest();
  void SetOver(bool over);  // of a job that is over one more is made, then none

 private:
  void Run();

  const std::string directory_;
  const diagnosis::Topology topology_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Assessment newest_;
  bool over_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace ncclwatch::analyzer::top
