#include "tests/unit/support/job_builder.h"

#include <algorithm>

#include "core/diagnose.h"
#include "core/reader/awaited.h"
#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/format/lease.h"

namespace ncclwatch::testing {
namespace {

constexpr std::int64_t kStart = 1'000'000'000'000;
constexpr std::int64_t kEpoch = 1'767'225'600'000'000'000 - kStart;  // the job starts at 2026-01-01T00:00:00Z

}  // namespace

Spec AllReduce(std::uint64_t count, std::uint8_t dtype, std::uint8_t reduction) {
  Spec spec;
  spec.count = count;
  spec.dtype = dtype;
  spec.reduction = reduction;
  return spec;
}

Spec Broadcast(int root, std::uint64_t count, std::uint8_t dtype) {
  Spec spec;
  spec.function = Function::ncclBroadcast;
  spec.count = count;
  spec.dtype = dtype;
  spec.reduction = format::kNoReduction;
  spec.root = root;
  return spec;
}

Spec AllGather(std::uint64_t count, std::uint8_t dtype) {
  Spec spec;
  spec.function = Function::ncclAllGather;
  spec.count = count;
  spec.dtype = dtype;
  spec.reduction = format::kNoReduction;
  return spec;
}

std::vector<int> Range(int begin, int end) {
  std::vector<int> range;
  for (int i = begin; i < end; ++i) range.push_back(i);
  return range;
}

Job::Job(int ranks, bool with_world) : now_ns_(kStart) {
  for (int rank = 0; rank < ranks; ++rank) {
    reader::BoxImage box;
    box.boot_id = "b3f1c6f2-0000-4000-8000-00000000b007";
    box.host = "node7";
    box.job = "train";
    box.command = "python train.py";
    box.master_address = "127.0.0.1";
    box.master_port = 29500;
    box.pid_namespace = 4026531836;
    box.pid = static_cast<std::uint32_t>(4711 + rank);
    box.start_time = 90000 + static_cast<std::uint64_t>(rank);
    box.rank = box.local_rank = rank;
    box.world_size = box.local_world_size = ranks;
    box.state = format::ProcessState::kRunning;
    box.heartbeats = 1;
    box.heartbeat_ns = now_ns_;
    box.realtime_minus_monotonic_ns = kEpoch;
    box.nccl_version = 22809;
    box.gpu_marks = format::GpuMarks::kOn;
    boxes_.push_back(std::move(box));
  }
  if (with_world) Comm(Range(0, ranks));
}

void Job::At(double seconds) { now_ns_ = kStart + static_cast<std::int64_t>(seconds * 1e9); }
void Job::Pass(double seconds) { now_ns_ += static_cast<std::int64_t>(seconds * 1e9); }

int Job::Comm(const std::vector<int>& ranks, const std::string& label, int parent) {
  const int comm = static_cast<int>(members_.size());
  members_.push_back(ranks);
  entries_.emplace_back();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    reader::BoxImage& box = Box(ranks[i]);
    reader::Communicator entry;
    entry.index = static_cast<std::uint32_t>(box.communicators.size());
    entry.id = 0x8f3c09d2a1b45e77ull + static_cast<std::uint64_t>(comm) * 0x1111;
    entry.parent = parent < 0 ? 0 : Entry(ranks[i], parent).id;
    entry.handle = 0x5500000 + static_cast<std::uint64_t>(comm) * 64;
    entry.rank = static_cast<std::uint32_t>(i);
    entry.size = static_cast<std::uint32_t>(ranks.size());
    entry.state = format::CommunicatorState::kReady;
    entry.label = label;
    entry.created_ns = now_ns_;
    entry.last.root = format::kNoRank;
    entries_.back()[ranks[i]] = box.communicators.size();
    box.communicators.push_back(entry);
  }
  return comm;
}

int Job::Joining(std::uint32_t size, const std::vector<int>& ranks_inside) {
  const int comm = Comm(ranks_inside);
  for (const int rank : ranks_inside) {
    reader::Communicator& entry = Entry(rank, comm);
    entry.size = size;
    entry.rank = static_cast<std::uint32_t>(rank);
    entry.state = format::CommunicatorState::kInitializing;
    Other(rank, Function::ncclCommInitRank, comm);
    Box(rank).calls.back().returned_ns = 0;
    Box(rank).calls.back().result = format::kNoResult;
  }
  return comm;
}

reader::Communicator& Job::Entry(int rank, int comm) {
  return Box(rank).communicators.at(entries_.at(static_cast<std::size_t>(comm)).at(rank));
}

std::uint64_t Job::Append(int rank, reader::Call call) {
  reader::BoxImage& box = Box(rank);
  call.slot = box.head++;
  call.entered_ns = now_ns_;
  call.thread = box.pid;
  const auto group = group_.find(rank);
  if (group != group_.end()) {
    call.group = group->second;
    call.flags |= format::kGrouped;
    grouped_[rank].push_back(call.slot);
  }
  box.calls.push_back(call);
  return call.slot;
}

std::uint64_t Job::Enter(int rank, int comm, const Spec& spec) {
  reader::Communicator& entry = Entry(rank, comm);
  reader::Call call;
  call.function = spec.function;
  call.communicator = entry.index;
  call.generation = entry.generation;
  call.position = entry.entered;
  call.count = spec.count;
  call.stream = spec.stream;
  call.site = spec.site;
  call.root = spec.root;
  call.dtype = spec.dtype;
  call.reduction = spec.reduction;
  call.signature = spec.signature;
  if (spec.count == 0) {
    call.flags |= format::kEmpty;
    call.chain = entry.chain;
    ++entry.empties;
    return Append(rank, call);
  }
  entry.chain = format::Chain(entry.chain, reader::FingerprintOf(call));
  call.chain = entry.chain;
  ++entry.entered;
  const std::uint64_t slot = Append(rank, call);
  entry.last = {slot, spec.count, now_ns_, spec.function, spec.root, spec.dtype, spec.reduction, call.flags};
  return slot;
}

void Job::Return(int rank, std::uint64_t slot, std::int32_t result) {
  reader::BoxImage& box = Box(rank);
  reader::Call& call = box.calls.at(slot - box.first_slot);
  call.returned_ns = now_ns_;
  call.result = result;
  const bool message = call.function == Function::ncclSend || call.function == Function::ncclRecv;
  if (!functions::IsCollective(call.function) && !message) return;
  if ((call.flags & format::kEmpty) != 0) return;
  reader::Communicator& entry = box.communicators.at(call.communicator);
  const bool refused = result == 4 || result == 5;
  if (refused && !message) {  // for its arguments: the position is given back
    --entry.entered;
    return;
  }
  if (!message) ++entry.returned;
  if (result == 0 && box.gpu_marks == format::GpuMarks::kBoth) {
    call.flags |= format::kStartMarked;
    call.start = ++starts_ * format::kStarts + call.stream % format::kStarts;
  }
  if (marks_ && result == 0) {
    call.flags |= format::kMarked;
    call.ticket = entry.tickets++;
    entry.last.flags |= format::kMarked;
  }
}

void Job::Call(const std::vector<int>& ranks, int comm, const Spec& spec) {
  for (const int rank : ranks) {
    const std::uint64_t slot = Enter(rank, comm, spec);
    if (!group_.contains(rank)) Return(rank, slot);
  }
}

void Job::Done(const std::vector<int>& ranks, int comm, const Spec& spec) {
  Call(ranks, comm, spec);
  Finish(ranks, comm);
}

void Job::Starts() {
  for (reader::BoxImage& box : boxes_) box.gpu_marks = format::GpuMarks::kBoth;
}

void Job::Begin(const std::vector<int>& ranks, int comm) {
  for (const int rank : ranks) {
    reader::Communicator& entry = Entry(rank, comm);
    for (const reader::Call& call : Box(rank).calls) {
      if (call.communicator != entry.index || (call.flags & format::kStartMarked) == 0) continue;
      std::uint64_t& start = entry.starts[call.start % format::kStarts];
      start = std::max(start, call.start);
    }
  }
}

void Job::Finish(const std::vector<int>& ranks, int comm) {
  Begin(ranks, comm);
  for (const int rank : ranks) {
    reader::Communicator& entry = Entry(rank, comm);
    const std::uint64_t first = entry.tickets > format::kMarks ? entry.tickets - format::kMarks : 0;
    for (std::uint64_t ticket = first; ticket < entry.tickets; ++ticket)
      entry.marks[ticket % format::kMarks] = ticket + 1;
  }
}

void Job::Group(int rank, const std::function<void()>& calls, bool close) {
  reader::Call start;
  start.function = Function::ncclGroupStart;
  const std::uint64_t slot = Append(rank, start);
  Box(rank).calls.back().group = slot + 1;
  Box(rank).calls.back().returned_ns = now_ns_;
  Box(rank).calls.back().result = 0;
  group_[rank] = slot + 1;
  grouped_[rank].clear();
  calls();
  if (!close) return;
  reader::Call end;
  end.function = Function::ncclGroupEnd;
  const std::uint64_t end_slot = Append(rank, end);
  group_.erase(rank);
  for (const std::uint64_t member : grouped_[rank]) Return(rank, member);
  Return(rank, end_slot);
}

void Job::Message(int rank, int comm, Function function, int peer, std::uint64_t count) {
  reader::Communicator& entry = Entry(rank, comm);
  const std::vector<int>& members = members_.at(static_cast<std::size_t>(comm));
  const auto at = std::find(members.begin(), members.end(), peer);
  const auto peer_rank = static_cast<std::uint32_t>(at - members.begin());
  reader::PeerCount* counts = nullptr;
  for (reader::PeerCount& known : Box(rank).peers) {
    if (known.communicator == entry.index && known.peer == peer_rank) counts = &known;
  }
  if (counts == nullptr)
    counts = &Box(rank).peers.emplace_back(reader::PeerCount{entry.index, entry.generation, peer_rank, 0, 0});
  reader::Call call;
  call.function = function;
  call.communicator = entry.index;
  call.generation = entry.generation;
  call.position = function == Function::ncclSend ? counts->sends++ : counts->receives++;
  call.count = count;
  call.stream = 0x7f0010;
  call.root = static_cast<std::int32_t>(peer_rank);
  call.dtype = kFloat32;
  const std::uint64_t slot = Append(rank, call);
  if (!group_.contains(rank)) Return(rank, slot);
}

void Job::Other(int rank, Function function, int comm) {
  reader::Call call;
  call.function = function;
  if (comm >= 0) call.communicator = Entry(rank, comm).index;
  Return(rank, Append(rank, call));
}

void Job::NoteAbort(reader::Communicator* entry) const {
  if (entry->aborted_ns != 0) return;
  entry->aborted_ns = now_ns_;
  entry->aborted_tickets = entry->tickets;
  for (std::size_t i = 0; i < entry->marks.size(); ++i)
    entry->unfinished[i] = static_cast<std::uint16_t>(entry->tickets - entry->marks[i]);
  entry->aborted_starts = entry->starts;
}

void Job::Abort(const std::vector<int>& ranks, int comm) {
  for (const int rank : ranks) {
    NoteAbort(&Entry(rank, comm));
    Entry(rank, comm).state = format::CommunicatorState::kAborted;
  }
  Finish(ranks, comm);
}

void Job::State(const std::vector<int>& ranks, int comm, format::CommunicatorState state) {
  for (const int rank : ranks) {
    if (state == format::CommunicatorState::kAborted || state == format::CommunicatorState::kRevoked)
      NoteAbort(&Entry(rank, comm));
    Entry(rank, comm).state = state;
    if (state == format::CommunicatorState::kDestroyed) Other(rank, Function::ncclCommDestroy, comm);
    if (state == format::CommunicatorState::kAborted) Other(rank, Function::ncclCommAbort, comm);
    if (state == format::CommunicatorState::kRevoked) Other(rank, Function::ncclCommRevoke, comm);
  }
}

void Job::Die(int rank, Exit exit) {
  if (!silent_.contains(rank)) Silence(rank);
  if (leader_ == rank) leader_ = (rank + 1) % static_cast<int>(boxes_.size());
  Observe(rank, format::Observed::kGone);
  reader::Observation& seen = Box(leader_).observations.back();
  if (exit.signal == 0 && exit.status < 0) return;
  seen.exit_flags = format::kExitKnown | (exit.out_of_memory ? format::kExitOutOfMemory : 0u);
  seen.exit_signal = exit.signal;
  seen.exit_status = std::max(exit.status, 0);
}

void Job::Observe(int rank, format::Observed what) {
  reader::Observation seen;
  seen.at_ns = now_ns_;
  seen.pid = Box(rank).pid;
  seen.start_time = Box(rank).start_time;
  seen.rank = rank;
  seen.what = what;
  Box(leader_).observations.push_back(seen);
}

void Job::Boxless(int rank, std::uint32_t pid) {
  reader::Observation seen;
  seen.at_ns = now_ns_;
  seen.pid = pid;
  seen.start_time = 99999;
  seen.place = format::PidPlace(Box(leader_).boot_id, Box(leader_).pid_namespace);
  seen.rank = rank;
  seen.what = format::Observed::kBoxless;
  Box(leader_).observations.push_back(seen);
}

void Job::Silence(int rank) {
  silent_.insert(rank);
  Box(rank).heartbeat_ns = now_ns_;
}

void Job::Unseen(int rank) { unseen_.insert(rank); }

std::vector<reader::BoxImage> Job::Images(bool verdict) const {
  std::vector<reader::BoxImage> images;
  for (std::size_t rank = 0; rank < boxes_.size(); ++rank) {
    if (unseen_.contains(static_cast<int>(rank))) continue;
    reader::BoxImage image = boxes_[rank];
    if (!silent_.contains(static_cast<int>(rank))) image.heartbeat_ns = now_ns_;
    if (static_cast<int>(rank) == leader_) {
      image.leader_state.suspect_after_ns = limits.suspect_after_ns;
      image.leader_state.likely_after_ns = limits.likely_after_ns;
      image.leader_state.verdict_at_ns = verdict ? now_ns_ : 0;
    }
    reader::MarkAwaited(&image);
    images.push_back(std::move(image));
  }
  return images;
}

diagnosis::Snapshot Job::Snapshot() const {
  diagnosis::Snapshot snapshot;
  snapshot.now_ns = now_ns_;
  snapshot.limits = limits;
  snapshot.boxes = Images(false);
  for (const reader::BoxImage& box : snapshot.boxes) {
    snapshot.observations.insert(snapshot.observations.end(), box.observations.begin(), box.observations.end());
  }
  std::stable_sort(snapshot.observations.begin(), snapshot.observations.end(),
                   [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
  return snapshot;
}

diagnosis::Diagnosis Job::Diagnose() const {
  const diagnosis::Snapshot snapshot = Snapshot();
  diagnosis::Diagnosis diagnosis = diagnosis::Diagnose(snapshot);
  if (on_judged) on_judged(snapshot, diagnosis);
  return diagnosis;
}

diagnosis::Diagnosis Job::DiagnoseAt(double seconds) {
  At(seconds);
  return Diagnose();
}

std::vector<std::string> Job::WriteBoxes(const std::string& directory, bool verdict) const {
  std::vector<std::string> paths;
  for (const reader::BoxImage& image : Images(verdict)) {
    paths.push_back(directory + "/" + image.host + "." + std::to_string(image.pid) + "." +
                    std::to_string(image.start_time) + format::kBoxSuffix);
    std::uint32_t ring = 256;
    while (ring < image.calls.size()) ring *= 2;
    WriteBox(image, paths.back(), ring);
  }
  return paths;
}

}  // namespace ncclwatch::testing
