// many_boxes DIR RANKS CALLS_PER_S: black boxes of as many ranks, each of which calls a collective of one of four
// communicators so often, until standard input ends. One process holds them all.
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/black_box.h"

namespace {

using namespace ncclwatch;

constexpr std::uint32_t kCommunicators = 4;

format::Header* MakeRank(const std::string& directory, int rank, int ranks) {
  const std::string host = "host" + std::to_string(rank / 8);
  format::Header* const header =
      testing::MakeLockedBox(directory + "/" + testing::OwnBoxName("rank" + std::to_string(rank)), {.records = 1024});
  if (!header) return nullptr;
  testing::DescribeThisProcess(rank, ranks, header);
  testing::Put(host, header->identity.host);
  testing::Put("many", header->identity.job);
  for (std::uint32_t i = 0; i < kCommunicators; ++i) {
    auto& one = testing::At<format::Communicator>(header, header->communicators)[i];
    one.id = 0x1000 + i;
    one.rank = static_cast<std::uint32_t>(rank);
    one.size = static_cast<std::uint32_t>(ranks);
    one.device = -1;
    one.state = static_cast<std::uint32_t>(format::CommunicatorState::kReady);
  }
  header->communicators_used = kCommunicators;
  testing::Publish(header);
  return header;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int ranks = std::atoi(argv[2]), per_second = std::atoi(argv[3]);
  mkdir(argv[1], 0700);
  std::ofstream(std::string(argv[1]) + "/job") << "many\n";
  std::vector<format::Header*> headers;
  for (int rank = 0; rank < ranks; ++rank) {
    headers.push_back(MakeRank(argv[1], rank, ranks));
    if (!headers.back()) return std::perror(argv[1]), 1;
  }
  std::puts("made");
  std::fflush(stdout);
  std::uint32_t turn = 0;
  for (pollfd input{STDIN_FILENO, POLLIN, 0}; poll(&input, 1, 1000 / per_second) == 0; ++turn) {
    for (format::Header* const header : headers) {
      testing::CollectiveCall call;
      call.count = 1 << 20;
      testing::EnterCollective(call, turn % kCommunicators, header);
      testing::ReturnNewest(header);
    }
  }
}
