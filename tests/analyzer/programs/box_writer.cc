// Stands for one rank: writes a black box as a rank would have left it, from the format's own headers.
//
//   box_writer DIR rank=R world=N calls=C [skip=1] [pending=1] [flags=1]
//       [end=exit|kill|hold|none] [status=S] [attempt=A] [boot=TEXT] [host=TEXT] [label=TEXT]
//
// C AllReduce calls on one communicator of all ranks; pending: the last one has not returned. skip: the last call is
// left out. flags: every third call is captured, every second one non-blocking. end: how the process ends; hold: lives
// on with lock and heartbeat, obeying the lease's switch, until its standard input ends; none: as exit, but without
// last words.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <poll.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <string>

#include "ncclwatch/format/black_box.h"
#include "ncclwatch/format/lease.h"
#include "tests/support/black_box.h"

namespace {

using namespace ncclwatch;

constexpr std::uint64_t kId = 0x8f3c09d2a1b45e77;
constexpr std::uint8_t kBfloat16 = 9;
constexpr int kHeartbeatMs = 20;

std::int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

class Arguments {
 public:
  Arguments(int argc, char** argv) {
    for (int i = 2; i < argc; ++i) {
      const std::string word = argv[i];
      values_[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    }
  }
  std::string Text(const char* name, const char* otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }
  int Number(const char* name, int otherwise) const {
    return std::atoi(Text(name, std::to_string(otherwise).c_str()).c_str());
  }

 private:
  std::map<std::string, std::string> values_;
};

void Identify(const Arguments& arguments, int rank, int world, format::Header* header) {
  testing::DescribeThisProcess(rank, world, header);
  format::Identity& identity = header->identity;
  testing::Put(arguments.Text("boot", identity.boot_id), identity.boot_id);
  testing::Put(arguments.Text("host", "node-a"), identity.host);
  testing::Put("writers", identity.job);
  identity.attempt = static_cast<std::uint32_t>(arguments.Number("attempt", 0));
  testing::Put("box_writer", identity.command);
}

void Join(int rank, int world, const std::string& label, format::Header* header) {
  auto& communicator = *testing::At<format::Communicator>(header, header->communicators);
  communicator.id = kId;
  communicator.rank = static_cast<std::uint32_t>(rank);
  communicator.size = static_cast<std::uint32_t>(world);
  communicator.created = static_cast<std::uint64_t>(Now());
  communicator.device = -1;
  testing::Put(label, communicator.label);
  communicator.handle = 0x1000;
  communicator.state = static_cast<std::uint32_t>(format::CommunicatorState::kReady);
  header->communicators_used = 1;
}

void Call(bool returns, std::uint32_t flags, format::Header* header) {
  testing::CollectiveCall call;
  call.count = 4096;
  call.dtype = kBfloat16;
  call.stream = 0x7f0000001000;
  call.site = 0x401234;
  call.thread = static_cast<std::uint32_t>(getpid());
  call.flags = flags;
  testing::EnterCollective(call, 0, header);
  if (returns) testing::ReturnNewest(header);
}

format::Lease* OpenLease(const std::string& directory) {
  const int fd = open((directory + "/lease").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(format::Lease)) != 0) return nullptr;
  auto* lease =
      static_cast<format::Lease*>(mmap(nullptr, sizeof(format::Lease), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  std::memcpy(lease->magic, format::kLeaseMagic, sizeof lease->magic);
  lease->version = format::kVersion;
  return lease;
}

void Live(const std::string& directory, format::Header* header) {
  format::Lease* lease = OpenLease(directory);
  for (pollfd input{STDIN_FILENO, POLLIN, 0}; poll(&input, 1, kHeartbeatMs) == 0;) {
    header->heartbeat_ns = Now();
    ++header->heartbeats;
    if (lease) header->watching = lease->switched_off ? 0 : 1;
  }
}

void SayLastWords(format::Header* header, int status) {
  header->state = static_cast<std::uint32_t>(format::ProcessState::kExiting);
  header->last_words.exit_status = status;
  header->last_words.at_ns = Now();
  header->last_words.written = 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string directory = argv[1];
  const Arguments arguments(argc, argv);
  const int rank = arguments.Number("rank", 0), world = arguments.Number("world", 1);
  const int calls = arguments.Number("calls", 3) - arguments.Number("skip", 0);
  mkdir(directory.c_str(), 0700);
  std::ofstream(directory + "/job") << "writers\n";
  const std::string path = directory + "/" + testing::OwnBoxName("node-a");
  format::Header* header = testing::MakeLockedBox(path, {});
  if (!header) {
    std::perror(path.c_str());
    return 1;
  }
  Identify(arguments, rank, world, header);
  Join(rank, world, arguments.Text("label", ""), header);
  for (int i = 0; i < calls; ++i) {
    const std::uint32_t flags = (i % 3 == 0 ? format::kCaptured : 0u) | (i % 2 == 0 ? format::kNonBlocking : 0u);
    Call(i + 1 < calls || arguments.Number("pending", 0) == 0, arguments.Number("flags", 0) != 0 ? flags : 0, header);
  }
  testing::Publish(header);

  const std::string end = arguments.Text("end", "exit");
  const int status = arguments.Number("status", 0);
  std::printf("%d\n", getpid());
  std::fflush(stdout);
  if (end == "hold") Live(directory, header);
  if (end == "kill") raise(SIGKILL);
  if (end != "none") SayLastWords(header, status);
  _exit(status);
}
