#include "core/nodes/image_code.h"

#include <algorithm>

#include "core/nodes/call_code.h"
#include "core/nodes/summary.h"
#include "core/nodes/words_code.h"
#include "core/reader/layout.h"

namespace ncclwatch::nodes {
namespace {

using reader::BoxImage;
using reader::Call;
using reader::Communicator;

constexpr std::size_t kMostText = 255;
constexpr std::size_t kMostWords = 4096;
constexpr std::uint64_t kMostEntries = 1u << 20;  // peers, observations, call sites of one box
constexpr std::uint64_t kMostCalls = 1u << 22;    // the largest ring
// What the smallest of them takes: a count that promises more than the bytes left is damage, and sizes no allocation.
constexpr std::size_t kLeastCall = 4, kLeastCommunicator = 31, kLeastEntry = 4, kLeastPayload = 7, kLeastStep = 3;
constexpr std::uint64_t kMostProgramSteps = 32;

// ---- communicators -----------------------------------------------------------------------------------------------

// What a mark holds once everything has finished up to the newest ticket.
std::uint64_t Settled(std::uint64_t tickets, std::size_t slot) {
  if (tickets == 0) return 0;
  const std::uint64_t newest = tickets - 1;
  const std::uint64_t ticket = newest - (newest - slot) % format::kMarks;
  return ticket > newest ? 0 : ticket + 1;
}

void WriteMarks(const Communicator& comm, Writer* to) {
  std::uint64_t other = 0;
  for (std::size_t i = 0; i < comm.marks.size(); ++i)
    if (comm.marks[i] != Settled(comm.tickets, i)) other |= std::uint64_t{1} << i;
  to->Number(other);
  for (std::size_t i = 0; i < comm.marks.size(); ++i)
    if ((other >> i & 1) != 0) to->Number(comm.marks[i]);
}

void ReadMarks(Reader* from, Communicator* comm) {
  const std::uint64_t other = from->Number();
  for (std::size_t i = 0; i < comm->marks.size(); ++i)
    comm->marks[i] = (other >> i & 1) != 0 ? from->Number() : Settled(comm->tickets, i);
}

// Of boxes with GpuMarks::kBoth alone.
void WriteStarts(const Communicator& comm, Writer* to) {
  for (const std::uint64_t start : comm.starts) to->Number(start);
}

void ReadStarts(Reader* from, Communicator* comm) {
  for (std::uint64_t& start : comm->starts) start = from->Number();
}

// Of communicators that were aborted or revoked: what had finished by then.
void WriteAborted(const Communicator& comm, Writer* to) {
  to->Signed(comm.aborted_ns);
  if (comm.aborted_ns == 0) return;
  to->Number(comm.aborted_tickets);
  for (const std::uint16_t unfinished : comm.unfinished) to->Number(unfinished);
  for (const std::uint64_t start : comm.aborted_starts) to->Number(start);
}

void ReadAborted(Reader* from, Communicator* comm) {
  comm->aborted_ns = from->Signed();
  if (comm->aborted_ns == 0) return;
  comm->aborted_tickets = from->Number();
  for (std::uint16_t& unfinished : comm->unfinished) unfinished = from->NumberAs<std::uint16_t>();
  for (std::uint64_t& start : comm->aborted_starts) start = from->Number();
}

void WriteCommunicator(const Communicator& comm, Writer* to) {
  to->Number(comm.index).Number(comm.generation).Whole(comm.id).Whole(comm.parent).Number(comm.parent_ordinal);
  to->Number(comm.handle).Number(comm.rank).Number(comm.size).Signed(comm.color).Signed(comm.device);
  to->Number(comm.memory)
      .Number(comm.flags)
      .Number(static_cast<std::uint64_t>(comm.state))
      .Text(comm.label, format::kLabelBytes)
      .Text(comm.gpu, kMostText);
  to->Signed(comm.created_ns).Number(comm.entered).Number(comm.returned).Whole(comm.chain).Number(comm.tickets);
  to->Number(comm.creations).Number(comm.sends).Number(comm.receives).Number(comm.empties);
  to->Number(comm.last.slot).Number(comm.last.count).Signed(comm.last.entered_ns);
  to->Number(static_cast<std::uint64_t>(comm.last.function)).Signed(comm.last.root);
  to->Byte(comm.last.dtype).Byte(comm.last.reduction).Number(comm.last.flags);
  WriteMarks(comm, to);
  WriteAborted(comm, to);
}

void ReadCommunicator(Reader* from, Communicator* comm) {
  comm->index = from->NumberAs<std::uint32_t>();
  comm->generation = from->NumberAs<std::uint32_t>();
  comm->id = from->Whole();
  comm->parent = from->Whole();
  comm->parent_ordinal = from->Number();
  comm->handle = from->Number();
  comm->rank = from->NumberAs<std::uint32_t>();
  comm->size = from->NumberAs<std::uint32_t>();
  comm->color = from->Signed32();
  comm->device = from->Signed32();
  comm->memory = from->Number();
  comm->flags = from->NumberAs<std::uint32_t>();
  comm->state = static_cast<format::CommunicatorState>(
      from->NumberUpTo(static_cast<std::uint64_t>(format::CommunicatorState::kRevoked)));
  comm->label = from->Text(format::kLabelBytes);
  comm->gpu = from->Text(kMostText);
  comm->created_ns = from->Signed();
  comm->entered = from->Number();
  comm->returned = from->Number();
  comm->chain = from->Whole();
  comm->tickets = from->Number();
  comm->creations = from->Number();
  comm->sends = from->Number();
  comm->receives = from->Number();
  comm->empties = from->Number();
  comm->last.slot = from->Number();
  comm->last.count = from->Number();
  comm->last.entered_ns = from->Signed();
  comm->last.function = static_cast<functions::Function>(from->NumberAs<std::uint32_t>());
  comm->last.root = from->Signed32();
  comm->last.dtype = from->Byte();
  comm->last.reduction = from->Byte();
  comm->last.flags = from->NumberAs<std::uint32_t>();
  ReadMarks(from, comm);
  ReadAborted(from, comm);
}

bool Plausible(const Communicator& comm) {
  const bool rank_unknown = (comm.flags & format::kCommRankUnknown) != 0;
  return comm.state != format::CommunicatorState::kFree && comm.size <= reader::kMaxCommunicatorSize &&
         (rank_unknown || comm.rank < comm.size);
}

// ---- the box -----------------------------------------------------------------------------------------------------

void WriteIdentity(const BoxImage& image, Writer* to) {
  for (const std::string* text : {&image.boot_id, &image.host, &image.node, &image.job, &image.command,
                                  &image.master_address, &image.nccl_library})
    to->Text(*text, kMostText);
  to->Number(image.pid_namespace).Number(image.start_time).Number(image.pid).Number(image.uid).Number(image.attempt);
  to->Signed(image.rank).Signed(image.world_size).Signed(image.local_rank).Signed(image.local_world_size);
  to->Signed(image.master_port).Signed(image.realtime_minus_monotonic_ns).Number(image.nccl_version);
  to->Number(static_cast<std::uint64_t>(image.gpu_marks)).Text(image.environment, kMostEnvironment);
}

void ReadIdentity(Reader* from, BoxImage* image) {
  for (std::string* text : {&image->boot_id, &image->host, &image->node, &image->job, &image->command,
                            &image->master_address, &image->nccl_library})
    *text = from->Text(kMostText);
  image->pid_namespace = from->Number();
  image->start_time = from->Number();
  image->pid = from->NumberAs<std::uint32_t>();
  image->uid = from->NumberAs<std::uint32_t>();
  image->attempt = from->NumberAs<std::uint32_t>();
  image->rank = from->Signed32();
  image->world_size = from->Signed32();
  image->local_rank = from->Signed32();
  image->local_world_size = from->Signed32();
  image->master_port = from->Signed32();
  image->realtime_minus_monotonic_ns = from->Signed();
  image->nccl_version = from->NumberAs<std::uint32_t>();
  image->gpu_marks =
      static_cast<format::GpuMarks>(from->NumberUpTo(static_cast<std::uint64_t>(format::GpuMarks::kBoth)));
  image->environment = from->Text(kMostEnvironment);
}

void WriteState(const BoxImage& image, Writer* to) {
  to->Number(static_cast<std::uint64_t>(image.state)).Byte(image.watching ? 1 : 0);
  to->Signed(image.heartbeat_ns).Number(image.heartbeats).Number(image.communicators_lost).Number(image.peers_lost);
  to->Number(image.head).Number(image.first_slot).Number(image.torn).Number(image.damaged);
  WriteLastWords(image.last_words, to);
  WriteWords(image.words, to);
}

void ReadState(Reader* from, BoxImage* image) {
  image->state =
      static_cast<format::ProcessState>(from->NumberUpTo(static_cast<std::uint64_t>(format::ProcessState::kCrashing)));
  image->watching = from->Byte() != 0;
  image->heartbeat_ns = from->Signed();
  image->heartbeats = from->Number();
  image->communicators_lost = from->NumberAs<std::uint32_t>();
  image->peers_lost = from->NumberAs<std::uint32_t>();
  image->head = from->Number();
  image->first_slot = from->Number();
  image->torn = from->NumberAs<std::uint32_t>();
  image->damaged = from->NumberAs<std::uint32_t>();
  image->last_words = ReadLastWords(from);
  image->words = ReadWords(from);
}

// How many there are to be read; 0 and a failure where there cannot be so many, or is no room for them.
template <typename T>
std::uint64_t Count(Reader* from, std::uint64_t most, std::size_t least_bytes) {
  const std::uint64_t count = from->NumberUpTo(most);
  if (count > from->left() / least_bytes) return from->Fail();
  from->Made(count * sizeof(T));
  return from->ok() ? count : 0;
}

}  // namespace

void KeepCalls(std::uint64_t newest, std::uint64_t communicator, BoxImage* image) {
  if (image->calls.size() <= newest) return;
  const Communicator* whole = nullptr;
  for (const Communicator& comm : image->communicators)
    if (comm.id == communicator && communicator != 0) whole = &comm;
  const auto first_new = image->calls.end() - static_cast<std::ptrdiff_t>(newest);
  std::vector<Call> kept;
  for (auto call = image->calls.begin(); call != image->calls.end(); ++call) {
    const bool wanted = whole && call->communicator == whole->index && call->generation == whole->generation;
    if (wanted || call >= first_new) kept.push_back(*call);
  }
  image->calls = std::move(kept);
  std::erase_if(image->parts, [image](const reader::CallParts& of) {
    return !std::binary_search(image->calls.begin(), image->calls.end(), of.call,
                               [](const Call& a, const Call& b) { return a.slot < b.slot; });
  });
  image->first_slot = std::max<std::uint64_t>(image->first_slot, 1);  // not whole: something was there before
}

// ---- amounts of single ranks, of MPI alone -------------------------------------------------------------------------

void WriteParts(const std::vector<format::Part>& parts, Writer* to) {
  to->Number(parts.size());
  for (const format::Part& part : parts)
    to->Number(part.what).Number(part.dtype).Number(part.element).Number(part.bytes);
}

std::vector<format::Part> ReadParts(Reader* from) {
  std::vector<format::Part> parts;
  for (std::uint64_t left = Count<format::Part>(from, format::kMostParts, kLeastEntry); left > 0 && from->ok();
       --left) {
    format::Part& part = parts.emplace_back();
    part.what = from->NumberAs<std::uint32_t>();
    part.dtype = from->NumberAs<std::uint16_t>();
    part.element = from->NumberAs<std::uint16_t>();
    part.bytes = from->Number();
  }
  return parts;
}

bool AnyOfMpi(const BoxImage& image) {
  return std::any_of(image.calls.begin(), image.calls.end(),
                     [](const Call& call) { return functions::IsMpi(call.function); });
}

void WriteAllParts(const BoxImage& image, Writer* to) {
  to->Number(image.parts.size());
  for (const reader::CallParts& of : image.parts) {
    to->Number(of.call.slot);
    WriteParts(of.sends, to);
    WriteParts(of.receives, to);
  }
}

// By slot, ascending, as the calls are; false: one of them is of no call.
bool ReadBehindCalls(Reader* from, bool mpi, BoxImage* image) {
  if (!mpi || !from->ok()) return from->ok();
  auto call = image->calls.begin();
  for (std::uint64_t left = Count<reader::CallParts>(from, kMostCalls, 3); left > 0 && from->ok(); --left) {
    const std::uint64_t slot = from->Number();
    call = std::lower_bound(call, image->calls.end(), slot,
                            [](const Call& one, std::uint64_t wanted) { return one.slot < wanted; });
    if (call == image->calls.end() || call->slot != slot) return false;
    image->parts.push_back({*call, ReadParts(from), ReadParts(from)});
  }
  return from->ok();
}

void WriteObservation(const reader::Observation& seen, Writer* to) {
  to->Signed(seen.at_ns).Number(seen.pid).Number(seen.start_time).Number(seen.place).Signed(seen.rank);
  to->Number(static_cast<std::uint64_t>(seen.what)).Number(seen.exit_flags);
  to->Signed(seen.exit_signal).Signed(seen.exit_status);
}

reader::Observation ReadObservation(Reader* from) {
  reader::Observation seen;
  seen.at_ns = from->Signed();
  seen.pid = from->NumberAs<std::uint32_t>();
  seen.start_time = from->Number();
  seen.place = from->NumberAs<std::uint32_t>();
  seen.rank = from->Signed32();
  seen.what = static_cast<format::Observed>(from->NumberUpTo(static_cast<std::uint64_t>(format::Observed::kClosed)));
  seen.exit_flags = from->NumberAs<std::uint32_t>();
  seen.exit_signal = from->Signed32();
  seen.exit_status = from->Signed32();
  return seen;
}

void WritePayload(const reader::Payload& one, Writer* to) {
  to->Number(one.communicator).Number(one.generation).Number(static_cast<std::uint64_t>(one.function));
  to->Number(one.count).Number(one.from).Number(one.until).Text(one.name, sizeof format::Payload::name);
}

reader::Payload ReadPayload(Reader* from) {
  reader::Payload one;
  one.communicator = from->NumberAs<std::uint32_t>();
  one.generation = from->NumberAs<std::uint32_t>();
  one.function = static_cast<functions::Function>(from->NumberAs<std::uint32_t>());
  one.count = from->Number();
  one.from = from->Number();
  one.until = from->Number();
  one.name = from->Text(sizeof format::Payload::name);
  return one;
}

// The newest: the call that a finding is about was made in one of them.
void WriteSteps(const BoxImage& image, Writer* to) {
  std::vector<const reader::Note*> steps;
  for (auto note = image.notes.rbegin(); note != image.notes.rend() && steps.size() < kMostProgramSteps; ++note)
    if (note->kind != format::NoteKind::kMetric) steps.push_back(&*note);
  to->Number(steps.size());
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    to->Byte((*step)->kind == format::NoteKind::kStepBegin ? 1 : 0).Signed((*step)->at_ns).Signed((*step)->step);
}

void WriteImage(const BoxImage& image, Writer* to) {
  WriteIdentity(image, to);
  WriteState(image, to);
  to->Number(image.communicators.size());
  const bool starts = image.gpu_marks == format::GpuMarks::kBoth;
  for (const Communicator& comm : image.communicators) {
    WriteCommunicator(comm, to);
    if (starts) WriteStarts(comm, to);
  }
  to->Number(image.peers.size());
  for (const reader::PeerCount& peer : image.peers)
    to->Number(peer.communicator).Number(peer.generation).Number(peer.peer).Number(peer.sends).Number(peer.receives);
  to->Number(image.call_sites.size());
  for (const reader::CallSite& site : image.call_sites)
    to->Number(site.address).Text(site.name, kMostWords).Signed(site.named_ns).Number(site.native);
  to->Number(image.payloads.size());
  for (const reader::Payload& one : image.payloads) WritePayload(one, to);
  WriteSteps(image, to);
  to->Number(image.observations.size());
  for (const reader::Observation& seen : image.observations) WriteObservation(seen, to);
  to->Number(image.calls.size());
  CallMemory memory;
  for (const Call& call : image.calls) memory.Write(call, to);
  if (AnyOfMpi(image)) WriteAllParts(image, to);
}

bool ReadBeforeCalls(Reader* from, BoxImage* image, std::uint64_t* calls) {
  ReadIdentity(from, image);
  ReadState(from, image);
  for (std::uint64_t left = Count<Communicator>(from, format::kMostCommunicators, kLeastCommunicator);
       left > 0 && from->ok(); --left) {
    Communicator comm;
    ReadCommunicator(from, &comm);
    if (image->gpu_marks == format::GpuMarks::kBoth) ReadStarts(from, &comm);
    if (!from->ok() || !Plausible(comm)) return false;
    image->communicators.push_back(std::move(comm));
  }
  for (std::uint64_t left = Count<reader::PeerCount>(from, kMostEntries, kLeastEntry); left > 0 && from->ok(); --left) {
    reader::PeerCount& peer = image->peers.emplace_back();
    peer.communicator = from->NumberAs<std::uint32_t>();
    peer.generation = from->NumberAs<std::uint32_t>();
    peer.peer = from->NumberAs<std::uint32_t>();
    peer.sends = from->Number();
    peer.receives = from->Number();
  }
  for (std::uint64_t left = Count<reader::CallSite>(from, kMostEntries, 4); left > 0 && from->ok(); --left) {
    reader::CallSite& site = image->call_sites.emplace_back();
    site.address = from->Number();
    site.name = from->Text(kMostWords);
    site.named_ns = from->Signed();
    site.native = from->Number();
  }
  for (std::uint64_t left = Count<reader::Payload>(from, format::kPayloads, kLeastPayload); left > 0 && from->ok();
       --left)
    image->payloads.push_back(ReadPayload(from));
  for (std::uint64_t left = Count<reader::Note>(from, kMostProgramSteps, kLeastStep); left > 0 && from->ok(); --left) {
    reader::Note& note = image->notes.emplace_back();
    note.kind = from->Byte() != 0 ? format::NoteKind::kStepBegin : format::NoteKind::kStepEnd;
    note.at_ns = from->Signed();
    note.step = from->Signed();
  }
  for (std::uint64_t left = Count<reader::Observation>(from, kMostEntries, kLeastEntry); left > 0 && from->ok(); --left)
    image->observations.push_back(ReadObservation(from));
  *calls = Count<Call>(from, kMostCalls, 3);
  return from->ok();
}

bool ReadImage(Reader* from, BoxImage* image) {
  std::uint64_t calls = 0;
  if (!ReadBeforeCalls(from, image, &calls)) return false;
  image->calls.reserve(calls);
  CallMemory memory;
  bool mpi = false;
  for (; calls > 0 && from->ok(); --calls) {
    image->calls.push_back(memory.Read(from));
    mpi = mpi || functions::IsMpi(image->calls.back().function);
  }
  return ReadBehindCalls(from, mpi, image);
}

}  // namespace ncclwatch::nodes
