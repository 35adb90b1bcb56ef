#include "tests/unit/shim/support.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace ncclwatch::shim_test {
namespace {

std::string MakeDirectory() {
  char name[] = "/tmp/ncclwatch-shim-test-XXXXXX";
  return mkdtemp(name);
}

struct Setup {
  std::string directory = MakeDirectory();
  pid_t owner = getpid();
  Setup() {
    setenv("NCCLWATCH_DIR", directory.c_str(), 1);
    setenv("NCCLWATCH_RING", "256", 1);
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    for (const char* name : {"NCCLWATCH", "NCCLWATCH_GPU", "NCCL_COMM_BLOCKING"}) unsetenv(name);
  }
  ~Setup() {
    std::error_code ignored;
    if (getpid() == owner) std::filesystem::remove_all(directory, ignored);
  }
} setup;

}  // namespace

const std::string& RunDirectory() { return setup.directory; }

std::vector<std::string> BoxFiles() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(RunDirectory()))
    if (entry.path().extension() == format::kBoxSuffix) files.push_back(entry.path());
  return files;
}

OwnBox::OwnBox() {
  const std::string mine = "." + std::to_string(getpid()) + ".";
  for (const std::string& file : BoxFiles()) {
    if (file.find(mine) == std::string::npos) continue;
    const int fd = open(file.c_str(), O_RDWR | O_CLOEXEC);
    struct stat status {};
    if (fd < 0 || fstat(fd, &status) != 0) throw std::runtime_error("cannot open " + file);
    bytes_ = static_cast<std::size_t>(status.st_size);
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) throw std::runtime_error("cannot map " + file);
    header_ = static_cast<format::Header*>(memory);
    return;
  }
  throw std::runtime_error("this process has no black box");
}

OwnBox::~OwnBox() { munmap(header_, bytes_); }

const format::Communicator& OwnBox::communicator(std::uint32_t index) const {
  const auto* base = reinterpret_cast<const char*>(header_) + header_->communicators.offset;
  return reinterpret_cast<const format::Communicator*>(base)[index];
}

const format::Communicator& OwnBox::Of(ncclComm_t comm) const {
  for (std::uint32_t i = header_->communicators_used; i-- > 0;) {
    const auto state = static_cast<format::CommunicatorState>(communicator(i).state.load());
    const bool ended = state == format::CommunicatorState::kDestroyed || state == format::CommunicatorState::kAborted;
    if (communicator(i).handle == reinterpret_cast<std::uint64_t>(comm) && !ended) return communicator(i);
  }
  throw std::runtime_error("no entry has this handle");
}

const format::Record& OwnBox::record(std::uint64_t slot) const {
  const auto* base = reinterpret_cast<const char*>(header_) + header_->ring.offset;
  return reinterpret_cast<const format::Record*>(base)[slot % header_->ring.count];
}

const format::Peer* OwnBox::PeerOf(ncclComm_t comm, std::uint32_t peer) const {
  const format::Communicator& entry = Of(comm);
  const auto index = static_cast<std::uint32_t>(&entry - &communicator(0));
  const std::uint64_t key = format::PeerKey(entry.generation, index, peer);
  const auto* table =
      reinterpret_cast<const format::Peer*>(reinterpret_cast<const char*>(header_) + header_->peers.offset);
  for (std::uint32_t i = 0; i < header_->peers.count; ++i)
    if (table[i].key == key) return &table[i];
  return nullptr;
}

ncclComm_t MakeComm(int rank, int size) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, size, id, rank), ncclSuccess);
  return comm;
}

ncclResult_t AllReduce(ncclComm_t comm, std::size_t count, ncclRedOp_t op, ncclDataType_t type) {
  return ncclAllReduce(nullptr, nullptr, count, type, op, comm, nullptr);
}

void ExpectSaid(bool (*body)(), const char* word) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(std::_Exit(body() ? 0 : 1), ::testing::ExitedWithCode(0),
              testing::MatchesRegex(std::string("[^\n]*") + word + "[^\n]*\n"));
}

}  // namespace ncclwatch::shim_test
