#include "analyzer/top/assess.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <utility>

#include "analyzer/console/units.h"
#include "analyzer/jobs/verdict.h"
#include "core/report/render.h"

namespace ncclwatch::analyzer::top {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kEvery = std::chrono::seconds(2);
constexpr int kCostShare = 100;  // one in so many parts of the time goes into assessments

nanoseconds ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

// Signals are for the thread that has the terminal; but for those that a thread brings upon itself (SIGBUS, of a box
// that was cut short).
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int own : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&all, own);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

std::vector<diagnosis::Finding> FindingsOf(const std::string& directory, const NodeState& state) {
  if (auto verdict = ReadVerdict(directory); verdict && !verdict->diagnosis.clean())
    return std::move(verdict->diagnosis.findings);
  return state.findings;
}

}  // namespace

Assessment Assess(const std::string& directory, const diagnosis::Topology& topology) {
  const NodeState state = ObserveNode(directory, topology);
  Assessment assessment;
  assessment.step = state.step;
  for (const RankState& rank : state.ranks)
    if (rank.step) assessment.steps[rank.rank] = *rank.step;
  assessment.findings = FindingsOf(directory, state);
  if (!state.ranks.empty()) assessment.at_ns = MonotonicNow();
  return assessment;
}

Assessor::Assessor(std::string directory, diagnosis::Topology topology)
    : directory_(std::move(directory)), topology_(std::move(topology)) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { Run(); });
}

Assessor::~Assessor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Assessment Assessor::Newest() {
  const std::lock_guard lock(mutex_);
  return newest_;
}

void Assessor::SetOver(bool over) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(over_, over) != over) changed_.notify_one();
}

void Assessor::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const bool last = over_;
    lock.unlock();
    const nanoseconds before = ThreadTime();
    Assessment assessment = Assess(directory_, topology_);
    const nanoseconds cost = ThreadTime() - before;
    lock.lock();
    if (assessment.at_ns != 0) newest_ = std::move(assessment);
    const auto due = [&] { return stop_ || over_ != last; };
    if (last)
      changed_.wait(lock, due);
    else
      changed_.wait_for(lock, std::max(kEvery, cost * kCostShare), due);
  }
}

}  // namespace ncclwatch::analyzer::top
