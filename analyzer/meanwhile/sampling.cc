#include "analyzer/meanwhile/sampling.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "analyzer/meanwhile/counters.h"
#include "analyzer/meanwhile/process_look.h"
#include "analyzer/meanwhile/waits.h"
#include "analyzer/stacks/precedence.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::meanwhile {
namespace {

constexpr int kLooksInAWait = 4;
constexpr std::size_t kEnough = 16;    // samples: of four waits at least
constexpr std::int64_t kShortest = 4;  // a wait of less than 1/kShortest of what was said is chance
constexpr std::int64_t kRefreshEvery_ns = 500'000'000;
constexpr std::int64_t kLeastPause_ns = 200'000, kMostPause_ns = 20'000'000;

std::int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

std::string Host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// One target, and the wait for it that goes on.
class Subject {
 public:
  // tid: the thread that makes its calls.
  Subject(const Target& target, int tid, stacks::FileCache* files, stacks::NameCache* names)
      : target_(target), tid_(tid), look_(target.pid, tid_, files, names) {
    result_.who.pid = static_cast<std::uint32_t>(target.pid);
    result_.who.start_time = target.start_time;
    result_.who.host = Host();
    look_.Take();  // finds the names of its functions: what takes long is done before anybody waits
  }

  // So that it is not waited for in vain.
  void LookWhetherItLives() {
    const auto stat = rundir::StatOf(target_.pid);
    gone_ |= !stat || stat->state == 'Z' || stat->state == 'X';
  }
  bool Done() const { return gone_ || result_.samples.size() >= kEnough; }

  void Turn(const Waits& waits, std::int64_t now_ns) {
    const std::optional<std::uint64_t> wait = waits.For(result_.who.pid);
    if (wait != wait_) {
      EndWait(now_ns);
      wait_ = wait;
      if (wait_) BeginWait(now_ns);
    }
    if (!wait_ || looks_ == kLooksInAWait || now_ns < next_ns_) return;
    ++looks_;
    next_ns_ = LookAt(looks_);
    std::optional<ProcessLook::Look> look = look_.Take();
    if (!look || waits.For(result_.who.pid) != wait_) return;
    look_.FollowWait(&*look);
    look->sample.wait = waits_;
    samples_.push_back(std::move(look->sample));
    result_.who.at_ns = now_ns;
  }

  reader::Meanwhile Take() {
    EndWait(Now());
    return std::move(result_);
  }

 private:
  void BeginWait(std::int64_t now_ns) {
    began_ns_ = now_ns;
    looks_ = 0;
    samples_.clear();
    before_ = CountersOf(target_.pid, tid_);
    next_ns_ = LookAt(0);
  }

  // One in each quarter of the time by which it is late, at random.
  std::int64_t LookAt(int number) {
    std::uniform_real_distribution<double> within(number, number + 1);
    return began_ns_ +
           static_cast<std::int64_t>(within(random_) / kLooksInAWait * static_cast<double>(target_.late_ns));
  }

  void EndWait(std::int64_t now_ns) {
    if (!std::exchange(wait_, std::nullopt)) return;
    if (now_ns - began_ns_ < target_.late_ns / kShortest) return;
    ++waits_;
    result_.waited_ns += now_ns - began_ns_;
    AddBetween(before_, CountersOf(target_.pid, tid_), &result_);
    std::move(samples_.begin(), samples_.end(), std::back_inserter(result_.samples));
  }

  Target target_;
  int tid_;
  ProcessLook look_;
  reader::Meanwhile result_;
  bool gone_ = false;
  std::mt19937 random_{std::random_device()()};
  std::optional<std::uint64_t> wait_;  // none: nobody waits
  std::int64_t began_ns_ = 0, next_ns_ = 0;
  int looks_ = 0;
  std::uint64_t waits_ = 0;  // that have ended and count
  std::vector<reader::MeanwhileSample> samples_;
  Counters before_;
};

std::int64_t PauseFor(const std::vector<Target>& targets) {
  constexpr std::int64_t kPart = 16;  // of the lateness, that may be over before it is noticed
  std::int64_t least = kMostPause_ns;
  for (const Target& target : targets) least = std::min(least, target.late_ns / kPart);
  return std::max(least, kLeastPause_ns);
}

}  // namespace

std::vector<reader::Meanwhile> Sample(const std::string& directory, const std::vector<Target>& targets,
                                      std::chrono::nanoseconds limit) {
  stacks::TakePrecedence();
  const std::int64_t until_ns = Now() + limit.count();
  stacks::FileCache files;
  stacks::NameCache names;
  std::set<std::uint32_t> pids;
  for (const Target& target : targets) pids.insert(static_cast<std::uint32_t>(target.pid));
  Waits waits(directory, pids);
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const Target& target : targets) {
    const auto stat = rundir::StatOf(target.pid);
    if (!stat || (target.start_time != 0 && stat->start_time != target.start_time)) continue;
    const auto thread = static_cast<int>(waits.ThreadOf(static_cast<std::uint32_t>(target.pid)));
    subjects.push_back(std::make_unique<Subject>(target, thread != 0 ? thread : target.pid, &files, &names));
  }
  const timespec pause{0, PauseFor(targets)};
  const auto done = [](const auto& subject) { return subject->Done(); };
  for (std::int64_t refreshed_ns = Now(), now_ns = refreshed_ns;
       now_ns < until_ns && !std::all_of(subjects.begin(), subjects.end(), done); now_ns = Now()) {
    if (now_ns - refreshed_ns >= kRefreshEvery_ns) {
      refreshed_ns = now_ns;
      waits.Refresh();
      for (const auto& subject : subjects) subject->LookWhetherItLives();
    }
    for (const auto& subject : subjects)
      if (!subject->Done()) subject->Turn(waits, now_ns);
    nanosleep(&pause, nullptr);
  }
  std::vector<reader::Meanwhile> all;
  for (const auto& subject : subjects) all.push_back(subject->Take());
  return all;
}

}  // namespace ncclwatch::meanwhile
