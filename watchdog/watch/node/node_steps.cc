#include "watchdog/watch/node/node_steps.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "core/reader/load.h"
#include "watchdog/watch/base/clock.h"

namespace ncclwatch::watch {
namespace {

constexpr std::int64_t kTellEvery_ns = 1'000'000'000;
constexpr std::size_t kRecords = 32768, kMostRecords = 4096, kFewestRecords = 512;  // in a poll: of all boxes, of each
constexpr std::uint64_t kFirstFind = 64, kMostFind = 4096;  // records in which a loop is looked for
constexpr std::int64_t kFindShare = 500;                    // of the time at most 1 in 500 goes into that
constexpr std::size_t kMostLoops = 64;

bool Has(const reader::MappedBox& box, std::uint64_t communicator) {
  for (std::uint32_t i = 0; i < box.communicators(); ++i)
    if (reader::Load(box.communicator(i).id) == communicator) return true;
  return false;
}

}  // namespace

std::int64_t StepsApart_ns(std::int32_t ranks) {
  constexpr std::int64_t kInAll = 8192, kMost = 64;
  return 1'000'000'000 / std::clamp<std::int64_t>(kInAll / std::max(1, ranks), 1, kMost);
}

std::size_t StepsKept(std::int32_t ranks) {
  constexpr std::size_t kOfFew = 1u << 17, kOfMany = 1u << 19, kMost = 1024, kUsual = 256, kFewest = 32;
  const auto all = static_cast<std::size_t>(std::max(1, ranks));
  return kOfFew / all >= kUsual ? std::min(kOfFew / all, kMost) : std::clamp(kOfMany / all, kFewest, kUsual);
}

void NodeSteps::FollowNew(const NodeProcesses& group_wait) {
  std::map<std::string, Followed> before = std::exchange(followed_, {});
  for (const Member& member : group_wait.members()) {
    if (member.gone || !member.same_boot) continue;
    const std::string& path = member.box->path();
    const auto known = before.find(path);
    if (known != before.end() && &known->second.follower->box() == member.box.get()) {
      followed_[path] = std::move(known->second);
      continue;
    }
    Followed& fresh = followed_[path];
    fresh.follower =
        std::make_unique<diagnosis::StepFollower>(*member.box, StepsApart_ns(context_.own->identity.world_size));
    fresh.pid_namespace = member.box->header().identity.pid_namespace;
    fresh.find_at = kFirstFind;
  }
}

void NodeSteps::Poll(std::int64_t now_ns, const NodeProcesses& group_wait) {
  FollowNew(group_wait);
  FindLoops(now_ns);
  const std::size_t most =
      std::clamp(kRecords / std::max<std::size_t>(1, followed_.size()), kFewestRecords, kMostRecords);
  for (auto& [path, one] : followed_) {
    FollowKnownLoop(&one);
    one.follower->Poll(now_ns, most);
  }
}

// In one box at a time.
void NodeSteps::FindLoops(std::int64_t now_ns) {
  if (now_ns < find_next_ns_) return;
  for (auto& [path, one] : followed_) {
    const bool knows = one.follower->loop() && one.follower->loop()->sure && !one.follower->Unsteady();
    const std::uint64_t head = one.follower->box().head();
    if (knows || head < one.find_at) continue;
    one.find_at = head < kMostFind ? 2 * head : head + kMostFind;
    const std::int64_t began_ns = Monotonic();
    const std::optional<diagnosis::Loop> loop = diagnosis::FindLoop(one.follower->box(), kMostFind);
    find_next_ns_ = now_ns + kFindShare * (Monotonic() - began_ns);
    if (!loop) return;
    Learn(*loop);
    return one.follower->Follow(*loop);
  }
}

void NodeSteps::Learn(const diagnosis::Loop& loop) {
  std::erase_if(loops_, [&](const diagnosis::Loop& one) { return one.communicator == loop.communicator; });
  if (loops_.size() == kMostLoops) loops_.erase(loops_.begin());
  loops_.push_back(loop);
  for (auto& [path, one] : followed_) one.loops_seen = 0;
}

// What was found in one process holds for all members of the communicator that counts its steps.
void NodeSteps::FollowKnownLoop(Followed* one) const {
  if (one->loops_seen == loops_.size()) return;
  one->loops_seen = loops_.size();
  const diagnosis::Loop* best = nullptr;
  const auto key = [](const diagnosis::Loop& loop) {
    return std::make_tuple(!loop.stretches, loop.size, loop.each, loop.communicator);
  };
  for (const diagnosis::Loop& loop : loops_)
    if ((best == nullptr || key(loop) > key(*best)) && Has(one->follower->box(), loop.communicator)) best = &loop;
  if (best != nullptr) one->follower->Follow(*best);
}

std::vector<diagnosis::ReportedRank> NodeSteps::Take(std::int64_t now_ns) {
  std::vector<diagnosis::ReportedRank> all;
  if (now_ns - reported_ns_ < kTellEvery_ns) return all;
  reported_ns_ = now_ns;
  for (auto& [path, one] : followed_) {
    diagnosis::ReportedRank reported = one.follower->Take();
    reported.boot_id = context_.own->identity.boot_id;
    reported.pid_namespace = one.pid_namespace;
    all.push_back(std::move(reported));
  }
  return all;
}

}  // namespace ncclwatch::watch
