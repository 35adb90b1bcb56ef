// Copies one black box, live or dead, into plain values.
#include "core/reader/image.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>

#include "core/reader/awaited.h"
#include "core/reader/box.h"
#include "core/reader/glance.h"
#include "core/reader/load.h"
#include "core/reader/sift.h"
#include "ncclwatch/format/lease.h"

namespace ncclwatch::reader {
namespace {

template <typename Enum>
Enum State(std::uint32_t value, Enum last, Enum otherwise) {
  return value <= static_cast<std::uint32_t>(last) ? static_cast<Enum>(value) : otherwise;
}

// None: the entry is just being given to another communicator.
std::optional<Communicator> CopyCommunicator(const MappedBox& box, std::uint32_t index) {
  const format::Communicator& from = box.communicator(index);
  Communicator to;
  to.index = index;
  to.generation = Load(from.generation);
  to.state = State(from.state.load(std::memory_order_acquire), format::CommunicatorState::kRevoked,
                   format::CommunicatorState::kFree);
  // Returned before entered: a copy taken in between never shows more returns than entries.
  to.returned = Load(from.returned);
  to.entered = Load(from.entered);
  to.chain = Load(from.chain);
  to.tickets = Load(from.tickets);
  to.creations = Load(from.creations);
  to.sends = Load(from.sends);
  to.receives = Load(from.receives);
  to.empties = Load(from.empties);
  to.id = Load(from.id);
  to.parent = Load(from.parent);
  to.parent_ordinal = Load(from.parent_ordinal);
  to.handle = Load(from.handle);
  to.rank = Load(from.rank);
  to.size = Load(from.size);
  to.color = Load(from.color);
  to.device = Load(from.device);
  to.gpu = box.StringAt(Load(from.gpu));
  to.memory = Load(from.memory);
  to.flags = Load(from.flags);
  to.created_ns = box.ToNanoseconds(Load(from.created));
  to.label = Text(from.label);
  to.last.slot = Load(from.last.slot);
  to.last.count = Load(from.last.count);
  to.last.entered_ns = box.ToNanoseconds(Load(from.last.entered));
  to.last.function = static_cast<functions::Function>(Load(from.last.function));
  to.last.root = Load(from.last.root);
  to.last.dtype = Load(from.last.dtype);
  to.last.reduction = Load(from.last.reduction);
  to.last.flags = Load(from.last.flags);
  // End marks first: what has ended by then has begun.
  for (std::size_t i = 0; i < to.marks.size(); ++i) to.marks[i] = Load(from.marks[i]);
  for (std::size_t i = 0; i < to.starts.size(); ++i) to.starts[i] = Load(from.starts[i]);
  if (const std::uint64_t aborted = Load(from.aborted)) {
    to.aborted_ns = box.ToNanoseconds(aborted);
    to.aborted_tickets = Load(from.aborted_tickets);
    for (std::size_t i = 0; i < to.unfinished.size(); ++i) to.unfinished[i] = Load(from.unfinished[i]);
    for (std::size_t i = 0; i < to.starts.size(); ++i) to.aborted_starts[i] = Load(from.aborted_starts[i]);
  }
  if (Load(from.generation) != to.generation) return std::nullopt;
  return to;
}

// A rank or size that cannot be would size allocations and name ranks that do not exist.
bool Plausible(const Communicator& communicator) {
  const bool rank_unknown = (communicator.flags & format::kCommRankUnknown) != 0;
  return communicator.size <= kMaxCommunicatorSize && (rank_unknown || communicator.rank < communicator.size);
}

void CopyCommunicators(const MappedBox& box, BoxImage* image) {
  for (std::uint32_t index = 0; index < box.communicators(); ++index) {
    std::optional<Communicator> communicator = CopyCommunicator(box, index);
    if (!communicator || communicator->state == format::CommunicatorState::kFree) continue;
    if (Plausible(*communicator)) {
      image->communicators.push_back(std::move(*communicator));
    } else {
      ++image->damaged;
    }
  }
}

void CopyPeers(const Layout& layout, BoxImage* image) {
  for (std::uint32_t i = 0; i < layout.peer_count; ++i) {
    const std::uint64_t key = Load(layout.peers[i].key);
    if (key == 0) continue;
    PeerCount peer;
    peer.generation = static_cast<std::uint32_t>((key - 1) >> 40);
    peer.communicator = static_cast<std::uint32_t>((key - 1) >> 20) & 0xfffff;
    peer.peer = static_cast<std::uint32_t>(key - 1) & 0xfffff;
    peer.sends = Load(layout.peers[i].sends);
    peer.receives = Load(layout.peers[i].receives);
    image->peers.push_back(peer);
  }
}

void CopyObservations(const Layout& layout, std::uint32_t used, BoxImage* image) {
  for (std::uint32_t i = 0; i < std::min(used, layout.observation_count); ++i) {
    const format::Observation& from = layout.observations[i];
    if (Load(from.commit) != i + 1) continue;
    Observation to;
    to.at_ns = Load(from.at_ns);
    to.pid = Load(from.pid);
    to.rank = Load(from.rank);
    to.start_time = Load(from.start_time);
    to.place = Load(from.place);
    to.what = State(Load(from.what), format::Observed::kClosed, format::Observed::kNothing);
    to.exit_flags = Load(from.exit_flags);
    to.exit_signal = Load(from.exit_signal);
    to.exit_status = Load(from.exit_status);
    if (Load(from.commit) == i + 1) image->observations.push_back(to);
  }
}

LeaderState CopyLeaderState(const format::LeaderState& from) {
  LeaderState to;
  // Odd: half written. A few tries; the writer needs nanoseconds, and one that died half way leaves it odd for good.
  for (int tries = 0; tries < 100; ++tries) {
    const std::uint64_t before = Load(from.sequence);
    to.suspect_after_ns = Load(from.suspect_after_ns);
    to.likely_after_ns = Load(from.likely_after_ns);
    to.verdict_at_ns = Load(from.verdict_at_ns);
    to.longest_wait_ns = Load(from.longest_wait_ns);
    to.waits = Load(from.waits);
    to.generation = Load(from.generation);
    to.job_minus_monotonic_ns = Load(from.job_minus_monotonic_ns);
    if (before % 2 == 0 && Load(from.sequence) == before) break;
  }
  return to;
}

LastWords CopyLastWords(const format::LastWords& from) {
  LastWords to;
  to.written = from.written.load(std::memory_order_acquire) != 0;
  if (!to.written) return to;
  to.exit_status = Load(from.exit_status);
  to.signal = Load(from.signal);
  to.at_ns = Load(from.at_ns);
  to.text = Text(from.text);
  return to;
}

void CopyIdentity(const format::Identity& from, BoxImage* to) {
  to->boot_id = Text(from.boot_id);
  to->host = Text(from.host);
  to->job = Text(from.job);
  to->command = Text(from.command);
  to->master_address = Text(from.master_address);
  to->pid_namespace = Load(from.pid_namespace);
  to->start_time = Load(from.start_time);
  to->pid = Load(from.pid);
  to->uid = Load(from.uid);
  to->attempt = Load(from.attempt);
  to->rank = Load(from.rank);
  to->world_size = Load(from.world_size);
  to->local_rank = Load(from.local_rank);
  to->local_world_size = Load(from.local_world_size);
  to->master_port = Load(from.master_port);
}

void CopyCallSites(const MappedBox& box, BoxImage* image) {
  for (const format::CallSite& from : box.header().call_sites) {
    const std::uint64_t address = from.address.load(std::memory_order_acquire);
    std::string name = address ? box.StringAt(Load(from.name)) : std::string();
    if (!name.empty()) image->call_sites.push_back({address, std::move(name), Load(from.named_ns), 0});
  }
}

// Entries are written once, before their number is told.
void CopyPythonSites(const format::PythonSites* sites, BoxImage* image) {
  const std::uint32_t used = sites ? std::min(Load(sites->used), format::kPythonSites) : 0;
  for (std::uint32_t i = 0; i < used; ++i) {
    const format::PythonSite& from = sites->entries[i];
    format::PythonSite site{};
    site.line = Load(from.line);
    site.on_main_thread = Load(from.on_main_thread);
    Text(from.file).copy(site.file, sizeof site.file - 1);
    Text(from.function).copy(site.function, sizeof site.function - 1);
    char name[format::kPythonSiteName];
    format::PythonSiteName(site, name, sizeof name);
    image->call_sites.push_back({std::uint64_t{i} + 1, name, 0, Load(from.native)});
  }
}

void CopyNotes(const Layout& layout, std::uint64_t made, BoxImage* image) {
  for (std::uint64_t number = made - std::min<std::uint64_t>(made, layout.note_count); number < made; ++number) {
    const format::Note& from = layout.notes[number % layout.note_count];
    if (from.commit.load(std::memory_order_acquire) != number + 1) continue;
    Note note{Load(from.kind), Load(from.at_ns), Load(from.step), Load(from.value), {}};
    char name[sizeof from.name];
    for (std::size_t i = 0; i < sizeof name; ++i) name[i] = Load(from.name[i]);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (from.commit.load(std::memory_order_relaxed) != number + 1) continue;
    if (note.kind == format::NoteKind::kNone || note.kind > format::NoteKind::kMetric) continue;
    note.name.assign(name, strnlen(name, sizeof name));
    image->notes.push_back(std::move(note));
  }
}

void CopyEvents(const format::Events& events, BoxImage* image) {
  const std::uint64_t made = events.made.load(std::memory_order_acquire);
  for (std::uint64_t number = made - std::min<std::uint64_t>(made, format::kEventCapacity); number < made; ++number) {
    const format::Event& from = events.entries[number % format::kEventCapacity];
    if (from.commit.load(std::memory_order_acquire) != number + 1) continue;
    Event event{Load(from.at_ns), Load(from.step), Text(from.type)};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (from.commit.load(std::memory_order_relaxed) == number + 1) image->events.push_back(std::move(event));
  }
}

// Entries are written before they are counted, and the function is checked by who prints it.
void CopyPayloads(const format::Payloads& payloads, BoxImage* image) {
  const std::uint32_t used = std::min(payloads.used.load(std::memory_order_acquire), format::kPayloads);
  for (const format::Payload& from : std::span(payloads.entries, used))
    image->payloads.push_back({Load(from.communicator), Load(from.generation),
                               static_cast<functions::Function>(Load(from.function)), Load(from.count), Load(from.from),
                               Load(from.until), Text(from.name)});
}

void CopyCalls(const MappedBox& box, std::uint64_t max_calls, BoxImage* image) {
  const std::uint64_t kept = std::min({image->head, box.ring_size(), max_calls});
  image->first_slot = image->head - kept;
  image->calls.reserve(kept);
  Call call;
  for (std::uint64_t slot = image->first_slot; slot < image->head; ++slot) {
    if (box.Read(slot, &call)) {
      AddCall(box, call, image);
    } else {
      ++image->torn;
    }
  }
}

}  // namespace

void AddCall(const MappedBox& box, const Call& call, BoxImage* image) {
  image->calls.push_back(call);
  if ((call.flags & format::kHasParts) == 0) return;
  CallParts parts;
  if (box.ReadParts(call, &parts)) image->parts.push_back(std::move(parts));
}

const CallParts* BoxImage::PartsOf(std::uint64_t slot) const {
  const auto found = std::lower_bound(parts.begin(), parts.end(), slot,
                                      [](const CallParts& of, std::uint64_t wanted) { return of.call.slot < wanted; });
  return found != parts.end() && found->call.slot == slot ? &*found : nullptr;
}

std::string BoxImage::PayloadOf(const Call& call) const {
  constexpr std::size_t kNamed = 3;
  std::string text;
  std::size_t found = 0;
  for (const Payload& one : payloads) {
    if (one.communicator != call.communicator || one.generation != call.generation || one.function != call.function ||
        one.count != call.count || call.position < one.from || call.position >= one.until)
      continue;
    if (++found <= kNamed) text += (found == 1 ? "" : ", ") + one.name;
  }
  if (found > kNamed) text += " and " + std::to_string(found - kNamed) + " more";
  return found > 1 ? "one of " + text : text;
}

bool IsAbout(const Observation& observation, const BoxImage& box) {
  return observation.pid == box.pid && observation.start_time == box.start_time &&
         (observation.place == 0 || observation.place == format::PidPlace(box.boot_id, box.pid_namespace));
}

std::string SiteText(const BoxImage& box, std::uint64_t site, std::int64_t before_ns) {
  for (const CallSite& known : box.call_sites)
    if (known.address == site && known.named_ns < before_ns) return known.name.substr(known.name.rfind('/') + 1);
  char number[24];
  std::snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(site));
  return number;
}

std::optional<Communicator> CommunicatorNow(const MappedBox& box, std::uint32_t index) {
  std::optional<Communicator> now = CopyCommunicator(box, index);
  if (!now || now->state == format::CommunicatorState::kFree || !Plausible(*now)) return std::nullopt;
  return now;
}

BoxImage MappedBox::Image(std::uint64_t max_calls) const {
  BoxImage image = WithoutCalls();
  CopyCalls(*this, max_calls, &image);
  MarkAwaited(&image);
  return image;
}

BoxImage MappedBox::Sifted(std::uint64_t newest) const {
  BoxImage image = WithoutCalls();
  Prefilter(*this, newest, &image);
  MarkAwaited(&image);
  return image;
}

std::string MappedBox::StringAt(std::uint32_t offset) const {
  if (offset == 0 || offset >= layout_.string_bytes) return {};
  return std::string(layout_.strings + offset, ::strnlen(layout_.strings + offset, layout_.string_bytes - offset));
}

BoxImage MappedBox::WithoutCalls() const {
  BoxImage image;
  image.path = path_;
  CopyIdentity(header_->identity, &image);
  // State, counts and marks first, calls last: a call that is seen is then never newer than the head that bounds it,
  // and a communicator's counts are never newer than its calls.
  image.state = State(header_->state.load(std::memory_order_acquire), format::ProcessState::kCrashing,
                      format::ProcessState::kRunning);
  image.watching = header_->watching.load(std::memory_order_acquire) != 0;
  image.heartbeat_ns = header_->heartbeat_ns.load(std::memory_order_acquire);
  image.heartbeats = header_->heartbeats.load(std::memory_order_acquire);
  constexpr std::int64_t kHalf = INT64_MAX / 2;  // instants are added to it
  image.realtime_minus_monotonic_ns =
      std::clamp(header_->clock.realtime_minus_monotonic_ns.load(std::memory_order_acquire), -kHalf, kHalf);
  image.nccl_version = Load(header_->nccl_version);
  image.nccl_library = StringAt(Load(header_->nccl_library));
  if (header_->version >= 2) image.node = StringAt(Load(header_->node));
  if (header_->version >= 2) image.environment = StringAt(Load(header_->environment));
  image.gpu_marks = State(Load(header_->gpu_marks), format::GpuMarks::kBoth, format::GpuMarks::kNotTried);
  image.communicators_lost = header_->communicators_lost.load(std::memory_order_relaxed);
  image.peers_lost = header_->peers_lost.load(std::memory_order_relaxed);
  image.last_words = CopyLastWords(header_->last_words);
  image.words = CopyWords(layout_);
  image.leader_state = CopyLeaderState(header_->leader_state);
  CopyCommunicators(*this, &image);
  CopyPeers(layout_, &image);
  CopyCallSites(*this, &image);
  CopyPythonSites(layout_.python_sites, &image);
  CopyObservations(layout_, header_->observations_used.load(std::memory_order_acquire), &image);
  if (layout_.notes) CopyNotes(layout_, header_->notes_made.load(std::memory_order_acquire), &image);
  if (layout_.events) CopyEvents(*layout_.events, &image);
  if (layout_.payloads) CopyPayloads(*layout_.payloads, &image);
  image.head = head();
  return image;
}

}  // namespace ncclwatch::reader
