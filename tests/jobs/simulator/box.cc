// The black box of one rank as it is at an instant: what has happened by then, in the words of docs/FORMAT.md.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "ncclwatch/format/fingerprint.h"
#include "tests/jobs/simulator/scene.h"
#include "tests/support/black_box.h"

namespace ncclwatch::jobs {
namespace {

using format::CommunicatorState;

class Box {
 public:
  Box(const Scene& scene, int rank)
      : scene_(scene),
        job_(scene.made().job),
        world_(scene.made().world->rank(rank)),
        rank_(rank),
        read_(scene.Read(rank)),
        seen_(std::min(read_, world_.host_stop)) {}

  std::unique_ptr<BoxMemory> Make() {
    CountCalls();
    const std::vector<Seen> observations = ObservationsOf(scene_, rank_);
    testing::BoxSize size;
    size.communicators = static_cast<std::uint32_t>(comms_ + 1);
    size.records = job_.ring;
    size.peers = 16;
    while (size.peers < 2 * peers_.size()) size.peers *= 2;
    size.observations = static_cast<std::uint32_t>(std::max<std::size_t>(observations.size(), 8));
    const testing::BoxLayout layout = testing::LayOut(size);
    auto box = std::make_unique<BoxMemory>(layout.bytes);
    header_ = box->header();
    testing::PutLayout(layout, header_);
    FillIdentity();
    FillLife();
    FillComms();
    FillRecords();
    FillPeers(size.peers);
    FillObservations(scene_, rank_, observations, header_);
    FillWords(scene_, rank_, seen_, head_, header_);
    testing::Publish(header_);
    return box;
  }

 private:
  struct Counts {
    std::uint64_t entered = 0, returned = 0, chain = 0, tickets = 0, starts = 0, sends = 0, receives = 0, empties = 0;
    std::size_t last = SIZE_MAX;
  };

  std::int64_t OnNode(std::int64_t at) const { return at + scene_.Offset(rank_); }
  std::uint64_t Ticks(std::int64_t at) const { return static_cast<std::uint64_t>(OnNode(at)); }
  bool By(std::int64_t at) const { return at <= seen_; }
  bool Marked(const Record& record) const {
    return job_.marks && (record.flags & format::kMarked) != 0 && By(record.returned);
  }

  // The same calls on all ranks.
  bool Timed(const Record& record, const Detail& detail) const {
    if (job_.times_every == 0 || record.ticket < 0 || detail.kernel_ns <= 0) return false;
    if (scene_.chance().Bits(kTimes, record.position) % job_.times_every != 0) return false;
    const LocalComm& comm = world_.comms[static_cast<std::size_t>(record.comm)];
    return comm.tickets[static_cast<std::size_t>(record.ticket)] <= std::min(read_, world_.gpu_stop);
  }

  format::GpuMarks Marks() const {
    if (!job_.marks) return format::GpuMarks::kOff;
    return job_.MarksStarts(rank_) ? format::GpuMarks::kBoth : format::GpuMarks::kOn;
  }
  bool StartMarked(const Record& record) const {
    return Marks() == format::GpuMarks::kBoth && record.start >= 0 && By(record.returned);
  }

  void CountCalls() {
    counts_.resize(world_.comms.size());
    while (comms_ < world_.comms.size() && By(world_.comms[comms_].created)) ++comms_;
    for (const Record& record : world_.records) {
      if (!By(record.entered)) break;
      ++head_;
      if (record.comm < 0) continue;
      Counts& counts = counts_[static_cast<std::size_t>(record.comm)];
      if (Marked(record)) counts.tickets = std::max(counts.tickets, static_cast<std::uint64_t>(record.ticket) + 1);
      if (StartMarked(record)) counts.starts = std::max(counts.starts, static_cast<std::uint64_t>(record.start) + 1);
      if (record.function == Function::ncclSend || record.function == Function::ncclRecv) {
        const bool sends = record.function == Function::ncclSend;
        ++(sends ? counts.sends : counts.receives);
        const std::int32_t root = world_.details[head_ - 1].root;
        auto& peer = peers_[{static_cast<std::uint32_t>(record.comm), static_cast<std::uint32_t>(root)}];
        ++(sends ? peer.first : peer.second);
      } else if (functions::IsCollective(record.function)) {
        CountCollective(record, &counts);
      }
    }
  }

  void CountCollective(const Record& record, Counts* counts) const {
    if ((record.flags & format::kEmpty) != 0) {
      ++counts->empties;
      return;
    }
    counts->last = head_ - 1;
    // A refused call gives its place back.
    const std::int32_t result = world_.details[head_ - 1].result;
    if ((result == 4 || result == 5) && By(record.returned)) return;
    counts->chain = record.chain;
    counts->entered = record.position + 1;
    if (By(record.returned)) ++counts->returned;
  }

  void FillIdentity() {
    format::Identity& identity = header_->identity;
    testing::Put(scene_.BootId(rank_), identity.boot_id);
    testing::Put(fmt::format("node{}", job_.node_of(rank_)), identity.host);
    testing::Put(std::string("generated"), identity.job);
    testing::Put("train --topology " + job_.shape.topology, identity.command);
    testing::Put(std::string("10.0.0.1"), identity.master_address);
    identity.pid_namespace = kPidNamespace;
    identity.start_time = scene_.StartTime(rank_);
    identity.pid = scene_.Pid(rank_);
    identity.uid = 1000;
    identity.rank = rank_;
    identity.world_size = job_.shape.ranks;
    identity.local_rank = rank_ % job_.per_node;
    identity.local_world_size = std::min(job_.per_node, job_.shape.ranks);
    identity.master_port = 29500;
  }

  void FillLife() {
    header_->clock.source = static_cast<std::uint32_t>(format::ClockSource::kMonotonic);
    header_->clock.realtime_minus_monotonic_ns = kEpoch + scene_.WallClockError(rank_) - scene_.Offset(rank_);
    header_->watching = 1;
    header_->state = static_cast<std::uint32_t>(format::ProcessState::kRunning);
    const std::int64_t beat = std::min(seen_, scene_.GoneAt(rank_));
    header_->heartbeat_ns =
        OnNode(beat - scene_.chance().Between(0, 50 * kMilli, kHeart, static_cast<std::uint64_t>(rank_)));
    header_->heartbeats = static_cast<std::uint64_t>(beat / (40 * kMilli)) + 1;
    header_->head = head_;
    header_->nccl_version = 22809;
    header_->gpu_marks = static_cast<std::uint32_t>(Marks());
    FillLeaderState();
  }

  void FillLeaderState() {
    const std::int64_t at = scene_.LastAct(rank_);
    const int node = job_.node_of(rank_), hub = scene_.Hub(at);
    if (scene_.LeaderOf(node, at) != rank_) return;
    const bool several = job_.nodes() > 1;
    format::LeaderState& leader_state = header_->leader_state;
    leader_state.suspect_after_ns = 10 * kSecond;
    leader_state.likely_after_ns = 60 * kSecond;
    leader_state.generation = 1 + scene_.Before(node * job_.per_node, rank_, at);
    if (several) leader_state.generation |= (1 + scene_.Before(0, hub, at)) << 32 | (hub == rank_ ? 1u << 31 : 0u);
    if (scene_.made().verdict && scene_.Hub(scene_.made().now) == rank_)
      leader_state.verdict_at_ns = OnNode(scene_.made().now);
    if (several && scene_.chance().Bits(kAgreed) % 2 == 0)
      leader_state.job_minus_monotonic_ns =
          kEpoch - scene_.Offset(rank_) +
          scene_.chance().Between(-50 * kMicro, 50 * kMicro, kAgreed, scene_.NodeOf(rank_));
  }

  CommunicatorState StateOf(const LocalComm& comm) const {
    if (By(comm.destroyed)) return CommunicatorState::kDestroyed;
    if (By(comm.aborted)) return CommunicatorState::kAborted;
    if (By(comm.finalizing)) return CommunicatorState::kFinalizing;
    return By(comm.ready) ? CommunicatorState::kReady : CommunicatorState::kInitializing;
  }

  void FillComms() {
    header_->communicators_used = static_cast<std::uint32_t>(comms_);
    auto* table = testing::At<format::Communicator>(header_, header_->communicators);
    for (std::size_t i = 0; i < comms_; ++i) FillComm(world_.comms[i], counts_[i], &table[i]);
  }

  void FillComm(const LocalComm& from, const Counts& counts, format::Communicator* to) {
    const Comm& comm = job_.comms[static_cast<std::size_t>(from.comm)];
    const bool settled = comm.parent < 0 || By(from.ready);
    to->id = IdOf(scene_, from.comm, from.ordinal);
    to->parent = comm.parent < 0 ? 0 : IdOf(scene_, comm.parent, 0);
    to->parent_ordinal = from.ordinal;
    to->color = comm.color;
    to->handle = 0x55000000ull + static_cast<std::uint64_t>(from.comm) * 0x1000;
    to->created = Ticks(from.created);
    to->rank = settled ? from.rank : 0;
    to->size = settled ? from.claimed_size : 0;
    to->flags = settled ? 0u : static_cast<std::uint32_t>(format::kCommRankUnknown);
    to->device = settled ? rank_ % job_.per_node : -1;
    to->state = static_cast<std::uint32_t>(StateOf(from));
    testing::Put(comm.label, to->label);
    to->entered = counts.entered;
    to->returned = counts.returned;
    to->chain = counts.chain;
    to->sends = counts.sends;
    to->receives = counts.receives;
    to->empties = counts.empties;
    to->creations = static_cast<std::uint64_t>(
        std::count_if(from.creations.begin(), from.creations.end(), [&](std::int64_t at) { return By(at); }));
    to->last.root = format::kNoRank;
    to->last.dtype = format::kNoType;
    to->last.reduction = format::kNoReduction;
    if (counts.last != SIZE_MAX) {
      const Record& last = world_.records[counts.last];
      const Detail& detail = world_.details[counts.last];
      to->last = {counts.last,
                  detail.count,
                  Ticks(last.entered),
                  static_cast<std::uint32_t>(last.function),
                  detail.root,
                  detail.dtype,
                  detail.reduction,
                  0,
                  last.flags & ~static_cast<std::uint32_t>(format::kMarked)};
    }
    if (!job_.marks) return;
    to->tickets = counts.tickets;
    const std::int64_t gpu = std::min(read_, world_.gpu_stop);
    for (std::size_t ticket = 0; ticket < counts.tickets; ++ticket)
      if (from.tickets[ticket] <= gpu) to->marks[ticket % format::kMarks] = ticket + 1;
    for (std::size_t start = 0; start < counts.starts; ++start)
      if (from.starts[start] <= gpu) to->starts[from.start_streams[start]] = StartNumber(from, start);
    if (By(from.aborted)) FillAbort(from, counts, to);
  }

  void FillAbort(const LocalComm& from, const Counts& counts, format::Communicator* to) const {
    std::uint64_t before[format::kMarks] = {};
    for (std::size_t ticket = 0; ticket < counts.tickets; ++ticket)
      if (from.tickets[ticket] < from.aborted) before[ticket % format::kMarks] = ticket + 1;
    to->aborted_tickets = counts.tickets;
    for (std::size_t i = 0; i < format::kMarks; ++i)
      to->unfinished[i] = static_cast<std::uint16_t>(std::min<std::uint64_t>(counts.tickets - before[i], UINT16_MAX));
    for (std::size_t start = 0; start < counts.starts; ++start)
      if (from.starts[start] < from.aborted) to->aborted_starts[from.start_streams[start]] = StartNumber(from, start);
    to->aborted = Ticks(from.aborted);
  }

  // Streams have places of their own.
  static std::uint64_t StartNumber(const LocalComm& comm, std::size_t start) {
    static_assert(kStreams <= format::kStarts);
    return (start + 1) * format::kStarts + comm.start_streams[start];
  }

  void FillRecords() {
    auto* ring = testing::At<format::Record>(header_, header_->ring);
    const std::size_t first = head_ > job_.ring ? head_ - job_.ring : 0;
    for (std::size_t slot = first; slot < head_; ++slot) FillRecord(slot, &ring[slot % job_.ring]);
  }

  void FillRecord(std::size_t slot, format::Record* to) const {
    const Record& from = world_.records[slot];
    const Detail& detail = world_.details[slot];
    const bool returned = By(from.returned);
    to->entered = Ticks(from.entered);
    to->returned = returned ? Ticks(from.returned) : 0;
    to->result = returned ? detail.result : format::kNoResult;
    to->position = from.position;
    to->count = detail.count;
    to->chain = from.chain;
    to->group = detail.group;
    to->stream = from.comm < 0 ? 0
                               : 0x7f0000001000ull + detail.stream * 0x100ull +
                                     scene_.chance().Bits(kStream, static_cast<std::uint64_t>(rank_)) % 4096 * 0x1000;
    to->site = detail.site;
    to->function = static_cast<std::uint32_t>(from.function);
    to->communicator = from.comm < 0 ? format::kNoCommunicator : static_cast<std::uint32_t>(from.comm);
    to->thread = scene_.Pid(rank_);
    to->flags = from.flags & ~static_cast<std::uint32_t>(format::kMarked);
    if (Marked(from)) {
      to->flags |= format::kMarked;
      to->ticket = static_cast<std::uint64_t>(from.ticket);
    }
    if (StartMarked(from)) {
      to->flags |= format::kStartMarked;
      to->start = StartNumber(world_.comms[static_cast<std::size_t>(from.comm)], static_cast<std::size_t>(from.start));
    }
    if (Timed(from, detail)) {
      to->flags |= format::kTimed;
      to->kernel = format::Pack({static_cast<std::uint64_t>(detail.kernel_ns), format::KernelClock::kGpu});
    }
    to->root = detail.root;
    to->dtype = detail.dtype;
    to->reduction = detail.reduction;
    to->commit = slot + 1;
  }

  void FillPeers(std::uint32_t capacity) {
    auto* table = testing::At<format::Peer>(header_, header_->peers);
    for (const auto& [who, counts] : peers_) {
      const std::uint64_t key = format::PeerKey(0, who.first, who.second);
      std::uint64_t slot = format::PeerSlot(key, capacity);
      while (table[slot].key != 0) slot = (slot + 1) % capacity;
      table[slot].key = key;
      table[slot].sends = counts.first;
      table[slot].receives = counts.second;
    }
  }

  const Scene& scene_;
  const Job& job_;
  const RankHistory& world_;
  int rank_;
  std::int64_t read_, seen_;
  format::Header* header_ = nullptr;
  std::size_t head_ = 0, comms_ = 0;
  std::vector<Counts> counts_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint64_t, std::uint64_t>> peers_;
};

}  // namespace

BoxMemory::BoxMemory(std::uint64_t bytes)
    : memory_(static_cast<char*>(::operator new(bytes, std::align_val_t(format::kPage)))), bytes_(bytes) {
  std::memset(memory_, 0, bytes);
}

BoxMemory::~BoxMemory() { ::operator delete(memory_, std::align_val_t(format::kPage)); }

bool HasBox(const Generated& made, int rank) {
  return std::find(made.boxless.begin(), made.boxless.end(), rank) == made.boxless.end() &&
         !made.world->rank(rank).records.empty() && made.world->rank(rank).records.front().entered <= made.now;
}

std::uint64_t IdOf(const Scene& scene, int comm, std::uint64_t ordinal) {
  const Comm& of = scene.made().job.comms[static_cast<std::size_t>(comm)];
  if (of.parent < 0) return scene.chance().Bits(kId, static_cast<std::uint64_t>(comm)) | 1;
  const std::uint64_t parent = IdOf(scene, of.parent, 0);
  return format::Mix(format::Mix(parent, ordinal), static_cast<std::uint64_t>(of.color)) | 1;
}

std::unique_ptr<BoxMemory> MakeBox(const Generated& made, int rank) { return Box(Scene(made), rank).Make(); }

std::string BoxName(const Generated& made, int rank) {
  const Scene scene(made);
  return fmt::format("node{}.{}.{}{}", made.job.node_of(rank), scene.Pid(rank), scene.StartTime(rank),
                     format::kBoxSuffix);
}

}  // namespace ncclwatch::jobs
