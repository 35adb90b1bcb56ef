// Stands for one rank: writes a black box as a rank would have left it, from the format's own headers.
//
//   box_writer DIR rank=R world=N calls=C [skip=1] [pending=1] [end=exit|kill|hold|none] [status=S] [boot=TEXT]
//
// C AllReduce calls on one communicator of all ranks; pending: the last one has not returned. skip: the last call is
// left out. end: how the process ends; hold: lives on with lock and heartbeat, obeying the lease's switch, until its
// standard input ends; none: as exit, but without last words.
#include <fcntl.h>
#include <sys/file.h>
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
#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/format/lease.h"

namespace {

using namespace ncclwatch;

constexpr std::uint32_t kRing = 256;
constexpr std::uint32_t kCommunicators = 4;
constexpr std::uint64_t kId = 0x8f3c09d2a1b45e77;
constexpr std::uint64_t kCount = 4096;
constexpr std::uint8_t kBfloat16 = 9;
constexpr std::uint8_t kSum = 0;
constexpr int kHeartbeatMs = 20;

std::int64_t Now(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

std::string LineOf(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::uint64_t StartTime() {
  const std::string stat = LineOf("/proc/self/stat");
  const char* at = stat.c_str() + stat.rfind(')') + 2;
  for (int field = 3; field < 22; ++field) at = std::strchr(at, ' ') + 1;
  return std::strtoull(at, nullptr, 10);
}

template <std::size_t kSize>
void Put(char (&to)[kSize], const std::string& text) {
  std::snprintf(to, kSize, "%s", text.c_str());
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

struct Box {
  format::Header* header;
  format::Communicator* communicators;
  format::Record* ring;
};

format::Section Place(std::uint64_t* end, std::uint32_t count, std::uint32_t entry_bytes) {
  const std::uint64_t bytes = (std::uint64_t{count} * entry_bytes + format::kPage - 1) / format::kPage * format::kPage;
  const format::Section section{*end, bytes, count, entry_bytes};
  *end += bytes;
  return section;
}

Box Make(const std::string& path) {
  format::Section sections[5];
  std::uint64_t end = format::kPage;
  sections[0] = Place(&end, kCommunicators, sizeof(format::Communicator));
  sections[1] = Place(&end, kRing, sizeof(format::Record));
  sections[2] = Place(&end, 16, sizeof(format::Peer));
  sections[3] = Place(&end, 16, sizeof(format::Observation));
  sections[4] = Place(&end, 4096, 1);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_len = 1;
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(end)) != 0 || fcntl(fd, F_SETLK, &lock) != 0) {
    std::perror(path.c_str());
    std::exit(1);
  }
  auto* base = static_cast<char*>(mmap(nullptr, end, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  Box box{reinterpret_cast<format::Header*>(base), reinterpret_cast<format::Communicator*>(base + sections[0].offset),
          reinterpret_cast<format::Record*>(base + sections[1].offset)};
  format::Header& header = *box.header;
  header.version = format::kVersion;
  header.endian_mark = format::kEndianMark;
  header.header_bytes = sizeof(format::Header);
  header.file_bytes = end;
  header.communicators = sections[0];
  header.ring = sections[1];
  header.peers = sections[2];
  header.observations = sections[3];
  header.strings = sections[4];
  return box;
}

void Identify(format::Header* header, const Arguments& arguments, int rank, int world) {
  format::Identity& identity = header->identity;
  Put(identity.boot_id, arguments.Text("boot", LineOf("/proc/sys/kernel/random/boot_id").c_str()));
  Put(identity.host, "node-a");
  Put(identity.job, "writers");
  Put(identity.command, "box_writer");
  struct stat status {};
  stat("/proc/self/ns/pid", &status);
  identity.pid_namespace = status.st_ino;
  identity.start_time = StartTime();
  identity.pid = static_cast<std::uint32_t>(getpid());
  identity.uid = geteuid();
  identity.rank = identity.local_rank = rank;
  identity.world_size = identity.local_world_size = world;
  const std::int64_t now = Now();
  header->clock.realtime_minus_monotonic_ns = Now(CLOCK_REALTIME) - now;
  header->state = static_cast<std::uint32_t>(format::ProcessState::kRunning);
  header->watching = 1;
  header->heartbeat_ns = now;
  header->nccl_version = 22809;
  header->communicators_used = 1;
}

void Call(const Box& box, bool returns) {
  format::Communicator& communicator = box.communicators[0];
  const std::uint64_t slot = box.header->head++;
  format::Record& record = box.ring[slot % kRing];
  record.entered = static_cast<std::uint64_t>(Now());
  record.position = communicator.entered++;
  record.count = kCount;
  const std::uint64_t shape = format::Fingerprint(functions::Function::ncclAllReduce, kCount, kBfloat16, kSum, -1);
  record.chain = communicator.chain = format::Chain(communicator.chain, shape);
  record.stream = 0x7f0000001000;
  record.site = 0x401234;
  record.result = format::kNoResult;
  record.function = static_cast<std::uint32_t>(functions::Function::ncclAllReduce);
  record.communicator = 0;
  record.thread = static_cast<std::uint32_t>(getpid());
  record.root = format::kNoRank;
  record.dtype = kBfloat16;
  record.reduction = kSum;
  record.commit = slot + 1;
  communicator.last.slot = slot;
  communicator.last.count = kCount;
  communicator.last.entered = record.entered;
  communicator.last.function = record.function;
  communicator.last.root = format::kNoRank;
  communicator.last.dtype = kBfloat16;
  communicator.last.reduction = kSum;
  if (!returns) return;
  record.result = 0;
  record.returned = static_cast<std::uint64_t>(Now());
  ++communicator.returned;
}

void Join(const Box& box, int rank, int world) {
  format::Communicator& communicator = box.communicators[0];
  communicator.id = kId;
  communicator.rank = static_cast<std::uint32_t>(rank);
  communicator.size = static_cast<std::uint32_t>(world);
  communicator.created = static_cast<std::uint64_t>(Now());
  communicator.device = -1;
  communicator.handle = 0x1000;
  communicator.state = static_cast<std::uint32_t>(format::CommunicatorState::kReady);
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

void Live(const Box& box, const std::string& directory) {
  format::Lease* lease = OpenLease(directory);
  for (pollfd input{STDIN_FILENO, POLLIN, 0}; poll(&input, 1, kHeartbeatMs) == 0;) {
    box.header->heartbeat_ns = Now();
    ++box.header->heartbeats;
    if (lease) box.header->watching = lease->switched_off ? 0 : 1;
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
  const Box box = Make(directory + "/node-a." + std::to_string(getpid()) + "." + std::to_string(StartTime()) + ".box");
  Identify(box.header, arguments, rank, world);
  Join(box, rank, world);
  for (int i = 0; i < calls; ++i) Call(box, i + 1 < calls || arguments.Number("pending", 0) == 0);
  std::memcpy(box.header->magic, format::kMagic, sizeof box.header->magic);

  const std::string end = arguments.Text("end", "exit");
  const int status = arguments.Number("status", 0);
  std::printf("%d\n", getpid());
  std::fflush(stdout);
  if (end == "hold") Live(box, directory);
  if (end == "kill") raise(SIGKILL);
  if (end != "none") SayLastWords(box.header, status);
  _exit(status);
}
