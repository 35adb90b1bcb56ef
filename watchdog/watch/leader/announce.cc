// The one line that says who is watched. Not watching silently is the worst failure of such a tool.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <vector>

#include "core/model/text.h"
#include "core/reader/load.h"
#include "ncclwatch/version.h"
#include "watchdog/log/log.h"
#include "watchdog/watch/leader/leader.h"

namespace ncclwatch::watch {
namespace {

constexpr std::int64_t kGrace_ns = 5'000'000'000;  // for boxes of slow ranks, after the communicator is ready on others

constexpr std::uint32_t kMostRanks = 1 << 20;

std::string Version(std::uint32_t code) {
  if (code == 0) return "of unknown version";
  // 2.9 changed the scale: 2800 and below are major * 1000.
  const std::uint32_t scale = code < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", code / scale, code % scale / 100, code % 100);
}

std::string Ranges(const std::set<std::uint32_t>& ranks) {
  return diagnosis::RankSet(std::vector<int>(ranks.begin(), ranks.end()));
}

const diagnosis::LiveCompare::Front* World(const std::vector<diagnosis::LiveCompare::Front>& fronts) {
  const diagnosis::LiveCompare::Front* world = nullptr;
  for (const auto& front : fronts)
    if (!world || front.size > world->size) world = &front;
  return world;
}

std::set<std::uint32_t> Unseen(const NodeProcesses& group_wait, std::uint64_t communicator, std::uint32_t size) {
  std::set<std::uint32_t> unseen;
  for (std::uint32_t rank = 0; rank < std::min(size, kMostRanks); ++rank) unseen.insert(rank);
  for (const Member& member : group_wait.members())
    for (std::uint32_t i = 0; i < member.box->communicators(); ++i) {
      const format::Communicator& entry = member.box->communicator(i);
      if (reader::Load(entry.id) == communicator) unseen.erase(reader::Load(entry.rank));
    }
  return unseen;
}

// What the MPI of this process calls itself; empty if it uses none.
std::string MpiOf(format::Header* own) {
  const std::uint32_t offset = std::atomic_ref(own->mpi_library).load(std::memory_order_acquire);
  if (offset == 0 || offset >= own->strings.bytes) return {};
  return reinterpret_cast<const char*>(own) + own->strings.offset + offset;
}

}  // namespace

void Leader::Announce(std::int64_t now_ns) {
  if (lease_->words().announced.load(std::memory_order_acquire) != 0) return;
  if (job_.IsHub()) return AnnounceJob(now_ns);
  if (!DiagnosesItself()) return;  // the hub says it for all
  const std::vector<diagnosis::LiveCompare::Front> fronts = compare_->Fronts();
  const diagnosis::LiveCompare::Front* world = World(fronts);
  if (!world || world->ready == 0) return;
  if (ready_ns_ == 0) ready_ns_ = now_ns;
  // By the boxes, not by who is ready: quick ranks may have destroyed the communicator already.
  const std::set<std::uint32_t> unseen = Unseen(group_wait_, world->communicator, world->size);
  const bool whole = unseen.empty() && world->initializing == 0;
  if (!whole && now_ns - ready_ns_ < kGrace_ns) return;
  std::uint64_t expected = 0;
  if (!lease_->words().announced.compare_exchange_strong(expected, 1)) return;
  std::string line = WatchingLine(world->size - unseen.size(), world->size);
  if (!unseen.empty())
    line += fmt::format("; not seen: ranks {} (on other hosts, or started without ncclwatch)", Ranges(unseen));
  log::Warn("{} (ncclwatch " NCCLWATCH_VERSION ")", line);
}

// As the hub, of all nodes.
void Leader::AnnounceJob(std::int64_t now_ns) {
  const nodes::Table& table = job_.hub().table();
  const std::optional<diagnosis::LiveCompare::Front> world = table.World();
  if (!world || world->ready == 0) return;
  if (ready_ns_ == 0) ready_ns_ = now_ns;
  std::set<std::uint32_t> unseen;
  const std::set<std::uint32_t> seen = table.SeenIn(world->communicator);
  for (std::uint32_t rank = 0; rank < std::min(world->size, kMostRanks); ++rank)
    if (!seen.contains(rank)) unseen.insert(rank);
  const bool whole = unseen.empty() && world->initializing == 0;
  if (!whole && (now_ns - ready_ns_ < kGrace_ns || !job_.Settled(now_ns))) return;
  lease_->words().announced.store(1, std::memory_order_release);
  std::string line = WatchingLine(world->size - unseen.size(), world->size);
  if (job_.nodes() > 1) line += fmt::format(" on each of {} nodes", job_.nodes());
  if (!unseen.empty())
    line += fmt::format("; not seen: ranks {} (started without ncclwatch, or on nodes that cannot be reached)",
                        Ranges(unseen));
  log::Warn("{} (ncclwatch " NCCLWATCH_VERSION ")", line);
  SayToAll(reported_ ? journal_.leader_state().verdict_at_ns : 0);
}

// "watching 7/8 ranks, NCCL 2.28.9, run directory /dev/shm/..."
std::string Leader::WatchingLine(std::size_t seen, std::size_t size) const {
  const std::uint32_t version = std::atomic_ref(context_.own->nccl_version).load(std::memory_order_relaxed);
  const std::string mpi = MpiOf(context_.own);
  const std::string nccl = version != 0 || mpi.empty() ? "NCCL " + Version(version) : "";
  return fmt::format("watching {}/{} ranks, {}{}{}, run directory {}", seen, size, nccl,
                     nccl.empty() || mpi.empty() ? "" : ", ", mpi, context_.directory.path());
}

std::string Leader::UnseenNote() const {
  if (job_.IsHub()) return "";
  const std::vector<diagnosis::LiveCompare::Front> fronts = compare_->Fronts();
  const diagnosis::LiveCompare::Front* world = World(fronts);
  const format::Identity& own = context_.own->identity;
  if (!world || own.local_world_size <= 0 || own.world_size <= own.local_world_size) return "";
  return fmt::format("{} ranks of the job run on other hosts: they are not watched from here",
                     own.world_size - own.local_world_size);
}

}  // namespace ncclwatch::watch
