#include "fake_rank.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/support/black_box.h"
#include "watchdog/descriptors/standard.h"
#include "watchdog/log/log.h"
#include "watchdog/rundir/process.h"
#include "watchdog/watch/base/clock.h"
#include "watchdog/watch/watchdog.h"

namespace ncclwatch::watch {
namespace {

constexpr testing::BoxSize kBox{16, 1024, 64, 512, 4096};

std::uint64_t Ticks() { return static_cast<std::uint64_t>(Monotonic()); }

}  // namespace

bool Eventually(const std::function<bool()>& condition, double seconds) {
  const std::int64_t end = Monotonic() + static_cast<std::int64_t>(seconds * 1e9);
  do {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  } while (Monotonic() < end);
  return condition();
}

std::string Content(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

int Count(const std::string& text, const std::string& what) {
  int count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

FakeRank::FakeRank(const std::string& directory, int rank, int size, const settings::Settings& settings,
                   Options options)
    : rank_(rank), size_(size) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) std::abort();
  pid_ = fork();
  if (pid_ == 0) Live(directory, settings, options, ready[1]);
  close(ready[1]);
  if (read(ready[0], &child_, sizeof(child_)) != sizeof(child_)) std::abort();
  close(ready[0]);
  const std::optional<rundir::ProcessStat> stat = rundir::StatOf(pid_);
  path_ = directory + "/host." + std::to_string(pid_) + "." + std::to_string(stat->start_time) + ".box";
  MapBox();
}

FakeRank::~FakeRank() {
  if (!reaped_) {
    kill(pid_, SIGKILL);
    Wait();
  }
  if (child_ > 0) kill(child_, SIGKILL);
  if (header_) munmap(header_, header_->file_bytes);
}

void FakeRank::Live(const std::string& directory, const settings::Settings& settings, Options options, int ready) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string said = directory + "/../stderr." + std::to_string(rank_);
  const int log = open(said.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(log, STDERR_FILENO);
  descriptors::RememberStandardFiles();
  path_ = directory + "/" + testing::OwnBoxName("host");
  header_ = testing::MakeLockedBox(path_ + ".draft", kBox);
  if (!header_) std::abort();
  testing::DescribeThisProcess(rank_, size_, header_);
  testing::Put("host", header_->identity.host);
  testing::Put("fake-0123456789ab", header_->identity.job);
  header_->gpu_marks = static_cast<std::uint32_t>(format::GpuMarks::kUnavailable);
  testing::Publish(header_);
  if (rename((path_ + ".draft").c_str(), path_.c_str()) != 0) std::abort();
  pid_t child = 0;
  if (options.fork_child && (child = fork()) == 0)
    for (;;) pause();
  std::unique_ptr<Watchdog> watchdog;
  if (options.watchdog) {
    Start begin;
    begin.own = header_;
    begin.own_path = path_;
    begin.directory = descriptors::Directory::Own(directory);
    log::SetLevel(settings.log);
    log::SetRank(header_->identity.rank);
    log::KeepIn(begin.directory);
    begin.settings = settings;
    watchdog = Watchdog::Launch(begin);
  }
  if (write(ready, &child, sizeof(child)) != sizeof(child)) std::abort();
  for (;;) pause();
}

void FakeRank::MapBox() {
  const int fd = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  header_ = static_cast<format::Header*>(
      mmap(nullptr, static_cast<std::size_t>(lseek(fd, 0, SEEK_END)), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  close(fd);
}

void FakeRank::MakeCommunicator(std::uint64_t id, bool ready) {
  auto& communicator = *testing::At<format::Communicator>(header_, header_->communicators);
  communicator.id = id;
  communicator.handle = 0x1000 + id;
  communicator.created = Ticks();
  communicator.rank = static_cast<std::uint32_t>(rank_);
  communicator.size = static_cast<std::uint32_t>(size_);
  communicator.device = rank_;
  communicator.state = static_cast<std::uint32_t>(format::CommunicatorState::kInitializing);
  header_->communicators_used = 1;
  if (ready) Ready();
}

void FakeRank::Ready() {
  testing::At<format::Communicator>(header_, header_->communicators)->state =
      static_cast<std::uint32_t>(format::CommunicatorState::kReady);
}

void FakeRank::Enter(const FakeCall& call) {
  testing::CollectiveCall entered;
  entered.function = call.function;
  entered.count = call.count;
  entered.dtype = call.dtype;
  entered.site = 0x4242;
  entered.thread = static_cast<std::uint32_t>(pid_);
  testing::EnterCollective(entered, 0, header_);
}

void FakeRank::Return() { testing::ReturnNewest(header_); }

void FakeRank::Signal(int signal) const { kill(pid_, signal); }

void FakeRank::Stop() const {
  Signal(SIGSTOP);
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED) != 0 && errno == EINTR) continue;
}

int FakeRank::Wait() {
  int status = -1;
  if (!reaped_) waitpid(pid_, &status, 0);
  reaped_ = true;
  return status;
}

FakeJob::FakeJob() {
  char name[] = "/dev/shm/ncclwatch-watch-XXXXXX";
  top_ = mkdtemp(name);
  std::filesystem::create_directories(directory());
}

FakeJob::~FakeJob() {
  ranks_.clear();
  if (lease_) munmap(lease_, format::kPage);
  if (::testing::Test::HasFailure()) std::fprintf(stderr, "%s\n%s\n", Said().c_str(), Diagnosis().c_str());
  // A program that a rank has started for stacks outlives it and may still write there.
  Eventually([&] {
    std::error_code error;
    std::filesystem::remove_all(top_, error);
    return !error;
  });
}

FakeRank& FakeJob::Add(int rank, int size, FakeRank::Options options) {
  ranks_.push_back(std::make_unique<FakeRank>(directory(), rank, size, settings, options));
  return *ranks_.back();
}

void FakeJob::Start(int size) {
  for (int rank = 0; rank < size; ++rank) {
    Add(rank, size);
    if (rank == 0) {
      EXPECT_TRUE(Eventually([this] { return Leader() == ranks_[0].get(); }));
    }
    ranks_.back()->MakeCommunicator(77);
  }
  EXPECT_TRUE(Eventually([this] { return lease().announced.load() == 1; }));
}

void FakeJob::CallAll(const FakeCall& call) {
  for (const auto& rank : ranks_) rank->Enter(call);
  for (const auto& rank : ranks_) rank->Return();
}

std::string FakeJob::Said() const {
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(top_))
    if (entry.is_regular_file()) all += Content(entry.path());
  return all;
}

format::Lease& FakeJob::lease() {
  if (!lease_) {
    int fd = -1;
    Eventually([&] { return (fd = open((directory() + "/lease").c_str(), O_RDWR | O_CLOEXEC)) >= 0; });
    lease_ = static_cast<format::Lease*>(mmap(nullptr, format::kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
  }
  return *lease_;
}

FakeRank* FakeJob::Leader() {
  const auto pid = static_cast<pid_t>(lease().holder.load() & 0xffffffffu);
  for (const auto& rank : ranks_)
    if (rank->pid() == pid) return rank.get();
  return nullptr;
}

}  // namespace ncclwatch::watch
