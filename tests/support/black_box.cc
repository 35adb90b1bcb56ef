#include "tests/support/black_box.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>

#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::testing {
namespace {

std::int64_t Now(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

std::uint64_t Ticks() { return static_cast<std::uint64_t>(Now(CLOCK_MONOTONIC)); }

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

format::Section Place(std::uint32_t count, std::size_t entry_bytes, std::uint64_t* end) {
  const std::uint64_t bytes = (count * entry_bytes + format::kPage - 1) / format::kPage * format::kPage;
  const format::Section section{*end, bytes, count, static_cast<std::uint32_t>(entry_bytes)};
  *end += bytes;
  return section;
}

}  // namespace

BoxLayout LayOut(const BoxSize& size) {
  BoxLayout layout{};
  layout.bytes = format::kPage;
  layout.communicators = Place(size.communicators, sizeof(format::Communicator), &layout.bytes);
  layout.records = Place(size.records, sizeof(format::Record), &layout.bytes);
  layout.peers = Place(size.peers, sizeof(format::Peer), &layout.bytes);
  layout.observations = Place(size.observations, sizeof(format::Observation), &layout.bytes);
  layout.words = Place(1, format::kWordsBytes, &layout.bytes);
  layout.parts = Place(size.parts, sizeof(format::Part), &layout.bytes);
  layout.strings = Place(size.strings, 1, &layout.bytes);
  return layout;
}

void PutLayout(const BoxLayout& layout, format::Header* header) {
  header->version = format::kVersion;
  header->endian_mark = format::kEndianMark;
  header->header_bytes = sizeof(format::Header);
  header->file_bytes = layout.bytes;
  header->communicators = layout.communicators;
  header->ring = layout.records;
  header->peers = layout.peers;
  header->observations = layout.observations;
  header->words = layout.words;
  header->parts = layout.parts;
  header->strings = layout.strings;
  header->strings_used = 1;  // offset 0 means none
}

void Publish(format::Header* header) { std::memcpy(header->magic, format::kMagic, sizeof header->magic); }

format::Header* MakeLockedBox(const std::string& path, const BoxSize& size) {
  const BoxLayout layout = LayOut(size);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_len = 1;
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(layout.bytes)) != 0 || fcntl(fd, F_SETLK, &lock) != 0) return nullptr;
  void* memory = mmap(nullptr, layout.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* header = static_cast<format::Header*>(memory);
  PutLayout(layout, header);
  return header;
}

std::string OwnBoxName(const std::string& host) {
  return host + "." + std::to_string(getpid()) + "." + std::to_string(StartTime()) + ".box";
}

void DescribeThisProcess(int rank, int world, format::Header* header) {
  format::Identity& identity = header->identity;
  Put(LineOf("/proc/sys/kernel/random/boot_id"), identity.boot_id);
  struct stat space {};
  stat("/proc/self/ns/pid", &space);
  identity.pid_namespace = space.st_ino;
  identity.start_time = StartTime();
  identity.pid = static_cast<std::uint32_t>(getpid());
  identity.uid = geteuid();
  identity.rank = identity.local_rank = rank;
  identity.world_size = identity.local_world_size = world;
  header->clock.source = static_cast<std::uint32_t>(format::ClockSource::kMonotonic);
  header->clock.realtime_minus_monotonic_ns = Now(CLOCK_REALTIME) - Now(CLOCK_MONOTONIC);
  header->state = static_cast<std::uint32_t>(format::ProcessState::kRunning);
  header->watching = 1;
  header->heartbeat_ns = Now(CLOCK_MONOTONIC);
  header->nccl_version = 22809;
}

void EnterCollective(const CollectiveCall& call, std::uint32_t communicator, format::Header* header) {
  constexpr std::uint8_t kSum = 0;
  auto& entry = At<format::Communicator>(header, header->communicators)[communicator];
  const std::uint64_t slot = header->head.fetch_add(1);
  auto& record = At<format::Record>(header, header->ring)[slot % header->ring.count];
  record.commit.store(0, std::memory_order_release);
  record.entered = Ticks();
  record.returned = 0;
  record.position = entry.entered;
  record.count = call.count;
  record.chain = format::Chain(entry.chain, format::Fingerprint(call.function, call.count, call.dtype, kSum, -1, 0));
  record.stream = call.stream;
  record.site = call.site;
  record.group = record.ticket = 0;
  record.result = format::kNoResult;
  record.function = static_cast<std::uint32_t>(call.function);
  record.communicator = communicator;
  record.generation = 0;
  record.thread = call.thread;
  record.flags = call.flags;
  record.root = format::kNoRank;
  record.dtype = call.dtype;
  record.reduction = kSum;
  record.commit.store(slot + 1, std::memory_order_release);
  entry.last.slot = slot;
  entry.last.count = call.count;
  entry.last.entered = record.entered;
  entry.last.function = record.function;
  entry.last.root = format::kNoRank;
  entry.last.dtype = call.dtype;
  entry.last.reduction = kSum;
  entry.chain.store(record.chain, std::memory_order_relaxed);
  entry.entered.fetch_add(1, std::memory_order_release);
}

void ReturnNewest(format::Header* header) {
  auto& record = At<format::Record>(header, header->ring)[(header->head - 1) % header->ring.count];
  record.result = 0;
  record.returned.store(Ticks(), std::memory_order_release);
  auto& entry = At<format::Communicator>(header, header->communicators)[record.communicator];
  entry.returned.fetch_add(1, std::memory_order_release);
}

}  // namespace ncclwatch::testing
