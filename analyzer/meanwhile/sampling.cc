#include "analyzer/meanwhile/sampling.h"

#include <absl/strings/str_join.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analyzer/jobs/locate.h"
#include "analyzer/meanwhile/counters.h"
#include "analyzer/meanwhile/doing.h"
#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/base/modules.h"
#include "analyzer/stacks/join_python.h"
#include "analyzer/stacks/names/name_frames.h"
#include "analyzer/stacks/precedence.h"
#include "analyzer/stacks/process/calls.h"
#include "analyzer/stacks/process/words.h"
#include "analyzer/stacks/python/python.h"
#include "analyzer/stacks/show/fold.h"
#include "analyzer/stacks/threads/proc_thread.h"
#include "analyzer/stacks/threads/read_threads.h"
#include "core/reader/beside/meanwhile.h"
#include "core/reader/box.h"
#include "core/reader/load.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::meanwhile {
namespace {

using format::CommunicatorState;
using reader::Doing;
using reader::Load;
using reader::MeanwhileSample;

// One process that is looked at several times, from outside: no thread of it is stopped and nothing of it is touched.
// What is learnt of its files at the first look makes the later ones quick. Not thread-safe.

class ProcessSample {
 public:
  // tid: the thread that is looked at. Both caches outlive this.
  ProcessSample(int pid, int tid, stacks::FileCache* files, stacks::NameCache* names);

  struct Look {
    reader::MeanwhileSample sample;
    bool waits_for_others = false;  // in no call on what has a name, and not running
  };
  // None: it is gone, or may not be looked at.
  std::optional<Look> Take() { return Take(tid_); }
  // Where the thread waits for another one of its process that reads or writes, the sample becomes that one's; where it
  // waits in its data loader, the words tell what the processes do that it has started.
  void FollowWait(Look* look);

 private:
  stacks::Thread ThreadNow(int tid) const;
  std::optional<Look> Take(int tid);
  void FollowThreads(reader::MeanwhileSample* sample);
  void FollowChildren(reader::MeanwhileSample* sample);

  int pid_, tid_;
  stacks::FileCache* files_;
  stacks::NameCache* names_;
  stacks::Memory memory_;
  stacks::Modules modules_;
  std::map<int, std::unique_ptr<ProcessSample>> children_;
};

constexpr std::size_t kMostChildren = 8;
constexpr std::size_t kMostThreads = 64;  // of the process, among which one is looked for that reads or writes

bool MovesData(Doing doing) { return doing == Doing::kInput || doing == Doing::kCheckpoint; }

ProcessSample::ProcessSample(int pid, int tid, stacks::FileCache* files, stacks::NameCache* names)
    : pid_(pid), tid_(tid), files_(files), names_(names), memory_(pid), modules_(&memory_, files) {}

stacks::Thread ProcessSample::ThreadNow(int tid) const {
  stacks::Thread thread;
  thread.tid = tid;
  const stacks::ProcThread look(pid_, tid);
  if (const auto stat = look.ReadStat()) {
    thread.name = stat->name;
    thread.state = stat->state;
  }
  return thread;
}

std::optional<ProcessSample::Look> ProcessSample::Take(int tid) {
  if (!stacks::ProcThread(pid_, tid).ReadInCall()) return std::nullopt;
  memory_.Forget();
  stacks::ReadOptions untouched;
  untouched.stop = false;
  stacks::ThreadsRead read = stacks::ReadThreads(&memory_, &modules_, names_, {ThreadNow(tid)}, untouched);
  if (read.threads.empty()) return std::nullopt;
  stacks::JoinPython(stacks::python::Read(pid_, &modules_), &read.threads);
  stacks::Thread& thread = read.threads.front();
  const stacks::InCall call = stacks::Calls::Original(read.calls.front(), thread);
  Seen seen;
  seen.thread = &thread;
  seen.running = call.running;
  if (!call.running && call.number >= 0) seen.call = stacks::CallName(call.number);
  const Argument argument = ArgumentOf(seen.call);
  if (argument == Argument::kDescriptor) {
    seen.descriptor = static_cast<int>(call.arguments[0]);
    seen.file = stacks::OpenFileOf(pid_, seen.descriptor);
  } else if (argument != Argument::kNone) {
    seen.path = memory_.Text(call.arguments[argument == Argument::kSecondPath ? 1 : 0]).value_or("");
  }
  Activity activity = ActivityOf(seen);
  Look look;
  look.sample.doing = activity.doing;
  look.sample.words = stacks::OneLine(activity.words);
  look.sample.where = stacks::Where(thread);
  look.waits_for_others = !seen.running && seen.file.path.empty();
  return look;
}

void ProcessSample::FollowWait(Look* look) {
  if (look->sample.doing == Doing::kLock) FollowThreads(&look->sample);
  if (look->sample.doing == Doing::kInput && look->waits_for_others) FollowChildren(&look->sample);
}

// Only one that reads or writes says something: many threads wait for work, and some always run.
void ProcessSample::FollowThreads(MeanwhileSample* sample) {
  std::vector<stacks::Thread> threads = stacks::LookAtThreads(pid_);
  if (threads.size() > kMostThreads) threads.resize(kMostThreads);
  for (const stacks::Thread& thread : threads) {
    if (thread.tid == tid_) continue;
    const std::optional<Look> other = Take(thread.tid);
    if (!other || !MovesData(other->sample.doing)) continue;
    sample->doing = other->sample.doing;
    sample->words = fmt::format("thread '{}' {}", stacks::OneLine(thread.name), other->sample.words);
    return;
  }
}

// Workers of a data loader: what most of them do.
void ProcessSample::FollowChildren(MeanwhileSample* sample) {
  std::vector<int> children = stacks::ChildrenOf(pid_);
  if (children.size() > kMostChildren) children.resize(kMostChildren);
  std::map<std::string, int> counts;
  for (const int child : children) {
    std::unique_ptr<ProcessSample>& known = children_[child];
    if (!known) known = std::make_unique<ProcessSample>(child, child, files_, names_);
    const std::optional<Look> look = known->Take();
    if (!look) continue;
    const MeanwhileSample& seen = look->sample;
    const std::string place = seen.where.empty() ? "" : seen.where.front();
    const std::string words = seen.words.empty() ? "running" : seen.words;
    ++counts[place.empty() ? words : fmt::format("{} at {}", words, place)];
  }
  if (counts.empty()) return;
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  sample->words = fmt::format("{} of its {} worker processes {}", most->second, children.size(), most->first);
}

// Who is waited for, now: told by the black boxes of a node, which are only read. The others wait for a rank if all
// others that are seen here have entered a collective which it has not, or if all are in calls of MPI and it is in
// none.

class Waits {
 public:
  // late: the processes that it is to tell of; they do not wait for one another.
  Waits(const std::string& directory, const std::set<std::uint32_t>& late);

  // A number that stays the same as long as the others wait in the same call.
  std::optional<std::uint64_t> For(std::uint32_t pid) const;
  // Takes up communicators that were made meanwhile.
  void Refresh();
  // That made its newest call; 0: not known.
  std::uint32_t ThreadOf(std::uint32_t pid) const;

 private:
  struct Member {
    const reader::MappedBox* box = nullptr;
    std::uint32_t index = 0, generation = 0;
    std::uint64_t entered() const;
    bool there() const;
  };
  std::optional<std::uint64_t> ForMessages(std::uint32_t pid) const;

  struct Meeting {  // one communicator of a late process
    Member late;
    std::uint32_t pid = 0;
    std::vector<Member> others;
  };

  std::set<std::uint32_t> late_;
  std::vector<std::unique_ptr<reader::MappedBox>> boxes_;
  std::vector<Meeting> meetings_;
};

// Identities that ranks of several processes have in common.
bool Counts(const format::Communicator& entry) {
  const auto state = static_cast<CommunicatorState>(Load(entry.state));
  const std::uint32_t unknown = format::kCommIdentityUnknown | format::kCommGrown;
  return state == CommunicatorState::kReady && Load(entry.size) > 1 && (Load(entry.flags) & unknown) == 0;
}

std::uint64_t Waits::Member::entered() const { return Load(box->communicator(index).entered); }
bool Waits::Member::there() const { return Load(box->communicator(index).generation) == generation; }

Waits::Waits(const std::string& directory, const std::set<std::uint32_t>& late) : late_(late) {
  for (const std::string& path : analyzer::BoxFiles(directory)) {
    auto opened = reader::MappedBox::Open(path);
    if (auto* const box = std::get_if<std::unique_ptr<reader::MappedBox>>(&opened)) boxes_.push_back(std::move(*box));
  }
  Refresh();
}

void Waits::Refresh() {
  std::erase_if(boxes_, [](const auto& box) { return !box->StillWhole(); });
  std::map<std::uint64_t, std::vector<Member>> others;  // by identity
  std::map<std::uint64_t, std::vector<Member>> own;
  for (const auto& box : boxes_)
    for (std::uint32_t index = 0; index < box->communicators(); ++index) {
      const format::Communicator& entry = box->communicator(index);
      if (!Counts(entry)) continue;
      const bool is_late = late_.contains(box->header().identity.pid);
      (is_late ? own : others)[Load(entry.id)].push_back({box.get(), index, Load(entry.generation)});
    }
  meetings_.clear();
  for (const auto& [id, members] : own)
    for (const Member& member : members)
      meetings_.push_back({member, static_cast<std::uint32_t>(member.box->header().identity.pid), others[id]});
}

std::uint32_t Waits::ThreadOf(std::uint32_t pid) const {
  constexpr std::uint64_t kNewest = 16;
  reader::Call call;
  for (const auto& box : boxes_) {
    if (box->header().identity.pid != pid) continue;
    const std::uint64_t head = box->head();
    for (std::uint64_t i = 1; i <= std::min(head, kNewest); ++i)
      if (box->Read(head - i, &call)) return call.thread;
  }
  return 0;
}

std::optional<std::uint64_t> Waits::For(std::uint32_t pid) const {
  constexpr int kPositionBits = 44;
  for (const Meeting& one : meetings_) {
    if (one.pid != pid || one.others.empty() || !one.late.there()) continue;
    const std::uint64_t entered = one.late.entered();
    const bool all_wait = std::all_of(one.others.begin(), one.others.end(),
                                      [&](const Member& other) { return !other.there() || other.entered() > entered; });
    if (all_wait) return static_cast<std::uint64_t>(one.late.index) << kPositionBits | entered;
  }
  return ForMessages(pid);
}

// Its neighbours wait for its messages, theirs for theirs, until nobody else computes.
std::optional<std::uint64_t> Waits::ForMessages(std::uint32_t pid) const {
  constexpr std::uint64_t kMessages = std::uint64_t{1} << 63;
  std::optional<std::uint64_t> wait;
  for (const auto& box : boxes_) {
    const bool is_late = box->header().identity.pid == pid;
    if (!is_late && late_.contains(box->header().identity.pid)) continue;
    reader::Call newest;
    const std::uint64_t head = box->head();
    if (head == 0 || !box->Read(head - 1, &newest) || !functions::IsMpi(newest.function)) return std::nullopt;
    if (is_late == (newest.returned_ns == 0)) return std::nullopt;
    if (is_late) wait = kMessages | head;
  }
  return boxes_.size() > 1 ? wait : std::nullopt;
}

constexpr int kLooksInAWait = 4;
constexpr std::size_t kEnough = 16;    // samples: of four waits at least
constexpr std::size_t kAtRandom = 40;  // samples, in about this time
constexpr std::int64_t kTimeAtRandom_ns = 4'000'000'000;
constexpr std::int64_t kShortest = 4;            // a wait of less than 1/kShortest of what was said is chance
constexpr std::uint64_t kMuchWritten = 1 << 20;  // bytes, in one wait
constexpr std::int64_t kRefreshEvery_ns = 500'000'000;
constexpr std::int64_t kLeastPause_ns = 200'000, kMostPause_ns = 20'000'000;

std::int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// One target, and the wait for it that goes on.
class Subject {
 public:
  // tid: the thread that makes its calls. random_ns: from one look at a random time to the next, on average; 0: none.
  Subject(const Target& target, int tid, std::int64_t random_ns, stacks::FileCache* files, stacks::NameCache* names)
      : target_(target), tid_(tid), random_ns_(random_ns), look_(target.pid, tid_, files, names) {
    result_.who.pid = static_cast<std::uint32_t>(target.pid);
    result_.who.start_time = target.start_time;
    result_.who.host = rundir::HostName();
    look_.Take();  // finds the names of its functions: what takes long is done before anybody waits
    next_random_ns_ = Now() + Spread(random_ns_);
  }

  // So that it is not waited for in vain.
  void LookWhetherItLives() {
    const auto stat = rundir::StatOf(target_.pid);
    gone_ |= !stat || stat->state == 'Z' || stat->state == 'X';
  }
  bool Done() const { return gone_ || (SeenWaits() && SeenAtRandom()); }

  void Turn(const Waits& waits, std::int64_t now_ns) {
    if (!SeenAtRandom() && now_ns >= next_random_ns_) LookAtRandom(now_ns);
    if (!SeenWaits()) TurnOfWaits(waits, now_ns);
  }

  reader::Meanwhile Take() {
    EndWait(Now());
    return std::move(result_);
  }

 private:
  bool SeenWaits() const { return target_.late_ns == 0 || result_.samples.size() >= kEnough; }
  bool SeenAtRandom() const { return random_ns_ == 0 || result_.at_random.size() >= kAtRandom; }

  void TurnOfWaits(const Waits& waits, std::int64_t now_ns) {
    const std::optional<std::uint64_t> wait = waits.For(result_.who.pid);
    if (wait != wait_) {
      EndWait(now_ns);
      wait_ = wait;
      if (wait_) BeginWait(now_ns);
    }
    if (!wait_ || looks_ == kLooksInAWait || now_ns < next_ns_) return;
    ++looks_;
    next_ns_ = LookAt(looks_);
    std::optional<ProcessSample::Look> look = look_.Take();
    if (!look || waits.For(result_.who.pid) != wait_) return;
    look_.FollowWait(&*look);
    look->sample.wait = waits_;
    samples_.push_back(std::move(look->sample));
    result_.who.at_ns = now_ns;
  }

  // Between half of the pause and one and a half: it does not fall into step with the loop.
  std::int64_t Spread(std::int64_t pause_ns) {
    return static_cast<std::int64_t>(std::uniform_real_distribution<double>(0.5, 1.5)(random_) *
                                     static_cast<double>(pause_ns));
  }

  void LookAtRandom(std::int64_t now_ns) {
    next_random_ns_ = now_ns + Spread(random_ns_);
    std::optional<ProcessSample::Look> look = look_.Take();
    if (!look) return;
    look_.FollowWait(&*look);
    result_.at_random.push_back(std::move(look->sample));
    result_.who.at_ns = now_ns;
  }

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
    const Counters now = CountersOf(target_.pid, tid_);
    AddBetween(before_, now, &result_);
    // Copying what is written takes its processor's time: in which call a thread runs cannot be seen.
    if (now.written >= before_.written + kMuchWritten)
      for (reader::MeanwhileSample& sample : samples_)
        if (sample.doing == Doing::kRunning) sample.doing = Doing::kCheckpoint;
    std::move(samples_.begin(), samples_.end(), std::back_inserter(result_.samples));
  }

  Target target_;
  int tid_;
  std::int64_t random_ns_, next_random_ns_ = 0;
  ProcessSample look_;
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
  for (const Target& target : targets)
    if (target.late_ns > 0) least = std::min(least, target.late_ns / kPart);
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
  for (const Target& target : targets)
    if (target.late_ns > 0) pids.insert(static_cast<std::uint32_t>(target.pid));
  Waits waits(directory, pids);
  std::vector<std::unique_ptr<Subject>> subjects;
  const std::int64_t random_ns = std::min<std::int64_t>(limit.count(), kTimeAtRandom_ns) / std::int64_t{kAtRandom};
  bool late_seen = false;
  for (const Target& target : targets) {
    const auto stat = rundir::StatOf(target.pid);
    if (!stat || (target.start_time != 0 && stat->start_time != target.start_time)) continue;
    const auto thread = static_cast<int>(waits.ThreadOf(static_cast<std::uint32_t>(target.pid)));
    const bool at_random = target.late_ns == 0 || !std::exchange(late_seen, true);
    subjects.push_back(std::make_unique<Subject>(target, thread != 0 ? thread : target.pid, at_random ? random_ns : 0,
                                                 &files, &names));
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
