// Writes a recording of any size without a job: RANKS ranks of one communicator, CALLS calls each in steps of ten, with
// a millisecond between steps. For measurements.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "analyzer/segments/segment_file.h"

using namespace ncclwatch;
using functions::Function;

namespace {

constexpr std::uint64_t kCallsOfSegment = 65536;
constexpr std::int64_t kBegin_ns = 1'800'000'000'000'000'000, kBetween_ns = 2'000, kInside_ns = 9'000;

reader::BoxImage Process(int rank, int ranks) {
  reader::BoxImage image;
  image.boot_id = fmt::format("{:08x}-0000-4000-8000-000000000000", rank / 8);
  image.host = fmt::format("node{}", rank / 8);
  image.job = "written";
  image.command = "train";
  image.pid = static_cast<std::uint32_t>(1000 + rank);
  image.start_time = 1;
  image.rank = rank;
  image.world_size = ranks;
  image.local_rank = rank % 8;
  image.local_world_size = 8;
  image.realtime_minus_monotonic_ns = kBegin_ns;
  image.state = format::ProcessState::kExiting;
  reader::Communicator world;
  world.id = 0x8f3c09d2a1b45e77;
  world.rank = static_cast<std::uint32_t>(rank);
  world.size = static_cast<std::uint32_t>(ranks);
  world.state = format::CommunicatorState::kReady;
  image.communicators.push_back(world);
  return image;
}

// A step: nine AllReduces of gradients in buckets and a Broadcast.
reader::Call CallAt(std::uint64_t slot, int rank, std::uint64_t* chain) {
  reader::Call call;
  call.slot = slot;
  const std::uint64_t of_step = slot % 10;
  if (slot == 0) {
    call.function = Function::ncclCommInitRank;
  } else {
    call.function = of_step == 9 ? Function::ncclBroadcast : Function::ncclAllReduce;
    call.count = of_step == 9 ? 8 : (of_step + 1) << 18;
    call.dtype = of_step == 9 ? 0 : 9;
    call.reduction = of_step == 9 ? format::kNoReduction : std::uint8_t{0};
    call.root = of_step == 9 ? 0 : -1;
    call.position = slot - 1;
    call.chain = *chain = format::Chain(*chain, reader::FingerprintOf(call));
  }
  const std::int64_t noise = static_cast<std::int64_t>(format::Mix(slot, static_cast<std::uint64_t>(rank)) % 997);
  call.communicator = 0;
  call.entered_ns = static_cast<std::int64_t>(slot) * (kInside_ns + kBetween_ns) +
                    static_cast<std::int64_t>(slot / 10) * 1'000'000 + noise;
  call.returned_ns = call.entered_ns + kInside_ns + noise;
  call.result = 0;
  call.thread = static_cast<std::uint32_t>(1000 + rank);
  call.stream = 0x7f0000001000;
  call.site = 0x401000 + of_step * 16;
  return call;
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) return 2;
  const int ranks = std::atoi(words[1]);
  const auto calls = static_cast<std::uint64_t>(std::atoll(words[2]));
  const std::string folder = words[3];
  std::filesystem::create_directories(folder);
  for (int first = 0; first < ranks; first += 8) {
    analyzer::SegmentWriter file(fmt::format("{}/node{}.1.1{}", folder, first / 8, format::kSegmentSuffix));
    for (int rank = first; rank < std::min(ranks, first + 8); ++rank) {
      reader::BoxImage image = Process(rank, ranks);
      std::uint64_t chain = 0;
      for (std::uint64_t begin = 0; begin < calls;) {
        const std::uint64_t end = std::min(calls, begin + kCallsOfSegment);
        image.calls.clear();
        for (std::uint64_t slot = begin; slot < end; ++slot) image.calls.push_back(CallAt(slot, rank, &chain));
        image.head = end;
        image.heartbeat_ns = image.calls.back().returned_ns;
        image.communicators[0].entered = end - 1;
        image.communicators[0].returned = end - 1;
        if (!file.Append(analyzer::ToSegment(image, begin, end, end == calls)).ok()) return 1;
        begin = end;
      }
    }
  }
}
