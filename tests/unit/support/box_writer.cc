// Lays a BoxImage out as a black box, independently of the recorder.
#include <cstring>
#include <fstream>
#include <new>

#include "tests/support/black_box.h"
#include "tests/unit/support/job_builder.h"

namespace ncclwatch::testing {
namespace {

void FillIdentity(const reader::BoxImage& image, format::Identity* identity) {
  Put(image.boot_id, identity->boot_id);
  Put(image.host, identity->host);
  Put(image.job, identity->job);
  Put(image.command, identity->command);
  Put(image.master_address, identity->master_address);
  identity->pid_namespace = image.pid_namespace;
  identity->start_time = image.start_time;
  identity->pid = image.pid;
  identity->uid = image.uid;
  identity->attempt = image.attempt;
  identity->rank = image.rank;
  identity->world_size = image.world_size;
  identity->local_rank = image.local_rank;
  identity->local_world_size = image.local_world_size;
  identity->master_port = image.master_port;
}

void FillHeader(const reader::BoxImage& image, format::Header* header) {
  FillIdentity(image, &header->identity);
  header->clock.source = static_cast<std::uint32_t>(format::ClockSource::kMonotonic);
  header->clock.realtime_minus_monotonic_ns = image.realtime_minus_monotonic_ns;
  header->leader_state.suspect_after_ns = image.leader_state.suspect_after_ns;
  header->leader_state.likely_after_ns = image.leader_state.likely_after_ns;
  header->leader_state.verdict_at_ns = image.leader_state.verdict_at_ns;
  header->leader_state.generation = image.leader_state.generation;
  header->leader_state.job_minus_monotonic_ns = image.leader_state.job_minus_monotonic_ns;
  header->last_words.written = image.last_words.written ? 1 : 0;
  header->last_words.exit_status = image.last_words.exit_status;
  header->last_words.signal = image.last_words.signal;
  header->last_words.at_ns = image.last_words.at_ns;
  Put(image.last_words.text, header->last_words.text);
  header->state = static_cast<std::uint32_t>(image.state);
  header->watching = image.watching ? 1 : 0;
  header->heartbeat_ns = image.heartbeat_ns;
  header->heartbeats = image.heartbeats;
  header->head = image.head;
  header->communicators_used = static_cast<std::uint32_t>(image.communicators.size());
  header->observations_used = static_cast<std::uint32_t>(image.observations.size());
  header->communicators_lost = image.communicators_lost;
  header->peers_lost = image.peers_lost;
  header->nccl_version = image.nccl_version;
  header->gpu_marks = static_cast<std::uint32_t>(image.gpu_marks);
}

void FillCommunicator(const reader::Communicator& from, format::Communicator* to) {
  to->entered = from.entered;
  to->returned = from.returned;
  to->chain = from.chain;
  to->tickets = from.tickets;
  to->creations = from.creations;
  to->sends = from.sends;
  to->receives = from.receives;
  to->empties = from.empties;
  to->last = {from.last.slot,
              from.last.count,
              static_cast<std::uint64_t>(from.last.entered_ns),
              static_cast<std::uint32_t>(from.last.function),
              from.last.root,
              from.last.dtype,
              from.last.reduction,
              0,
              from.last.flags};
  to->id = from.id;
  to->parent = from.parent;
  to->parent_ordinal = from.parent_ordinal;
  to->handle = from.handle;
  to->created = static_cast<std::uint64_t>(from.created_ns);
  to->rank = from.rank;
  to->size = from.size;
  to->color = from.color;
  to->device = from.device;
  to->memory = from.memory;
  to->flags = from.flags;
  to->generation = from.generation;
  to->state = static_cast<std::uint32_t>(from.state);
  Put(from.label, to->label);
  for (std::size_t i = 0; i < from.marks.size(); ++i) to->marks[i] = from.marks[i];
  for (std::size_t i = 0; i < from.starts.size(); ++i) to->starts[i] = from.starts[i];
  for (std::size_t i = 0; i < from.starts.size(); ++i) to->aborted_starts[i] = from.aborted_starts[i];
  to->aborted = static_cast<std::uint64_t>(from.aborted_ns);
  to->aborted_tickets = from.aborted_tickets;
  for (std::size_t i = 0; i < from.unfinished.size(); ++i) to->unfinished[i] = from.unfinished[i];
}

// Over the places of NCCL's.
void FillOfMpi(const reader::Call& from, format::MpiRecord* to) {
  const bool has_parts = (from.flags & format::kHasParts) != 0;
  to->waiter = from.waiter;
  to->signature = from.signature;
  to->tag = has_parts ? static_cast<std::int32_t>(from.parts) : from.tag;
  to->parts_high = has_parts ? static_cast<std::uint16_t>(from.parts >> 32) : 0;
  to->completed = static_cast<std::uint64_t>(from.completed_ns);
  to->bytes = from.bytes;
}

void FillRecord(const reader::Call& from, format::Record* to) {
  to->entered = static_cast<std::uint64_t>(from.entered_ns);
  to->returned = static_cast<std::uint64_t>(from.returned_ns);
  to->position = from.position;
  to->count = from.count;
  to->chain = from.chain;
  to->stream = from.stream;
  to->site = from.site;
  to->group = from.group;
  to->ticket = from.ticket;
  to->start = from.start;
  to->result = from.result;
  to->function = static_cast<std::uint32_t>(from.function);
  to->communicator = from.communicator;
  to->generation = from.generation;
  to->thread = from.thread;
  to->flags = from.flags;
  to->root = from.root;
  to->dtype = from.dtype;
  to->reduction = from.reduction;
  if (functions::IsMpi(from.function)) FillOfMpi(from, reinterpret_cast<format::MpiRecord*>(to));
  to->commit = from.slot + 1;
}

void FillParts(const reader::CallParts& from, format::Header* header) {
  auto* all = At<format::Part>(header, header->parts);
  std::uint64_t number = from.call.parts;
  auto* head = reinterpret_cast<format::PartsHead*>(&all[number % header->parts.count]);
  head->sends = static_cast<std::uint16_t>(from.sends.size());
  head->receives = static_cast<std::uint16_t>(from.receives.size());
  std::uint64_t sum = format::PartsSum(head->sends, head->receives);
  for (const auto* parts : {&from.sends, &from.receives}) {
    for (const format::Part& part : *parts) {
      sum = format::PartsSum(sum, part);
      all[++number % header->parts.count] = part;
    }
  }
  head->sum = static_cast<std::uint32_t>(sum);
  head->commit = from.call.parts + 1;
}

void FillObservation(const reader::Observation& from, std::size_t index, format::Observation* to) {
  to->at_ns = from.at_ns;
  to->pid = from.pid;
  to->rank = from.rank;
  to->start_time = from.start_time;
  to->place = from.place;
  to->what = static_cast<std::uint32_t>(from.what);
  to->exit_flags = from.exit_flags;
  to->exit_signal = from.exit_signal;
  to->exit_status = from.exit_status;
  to->commit = index + 1;
}

void FillPeers(const reader::BoxImage& image, format::Peer* peers, std::uint32_t capacity) {
  for (const reader::PeerCount& from : image.peers) {
    const std::uint64_t key = format::PeerKey(from.generation, from.communicator, from.peer);
    std::uint64_t slot = format::PeerSlot(key, capacity);
    while (peers[slot].key != 0) slot = (slot + 1) % capacity;
    peers[slot].key = key;
    peers[slot].sends = from.sends;
    peers[slot].receives = from.receives;
  }
}

std::uint32_t AddString(const std::string& text, format::Header* header) {
  if (text.empty()) return 0;
  const std::uint32_t at = header->strings_used.fetch_add(static_cast<std::uint32_t>(text.size() + 1));
  std::memcpy(At<char>(header, header->strings) + at, text.c_str(), text.size() + 1);
  return at;
}

void FillSignal(const reader::FatalSignal& from, format::Header* header, format::FatalSignal* to) {
  to->at_ns = from.at_ns;
  to->fault_address = from.fault_address;
  to->stack_pointer = from.stack_pointer;
  to->signal = from.signal;
  to->code = from.code;
  to->sender = from.sender;
  to->thread = from.thread;
  to->flags = from.flags;
  Put(from.thread_name, to->thread_name);
  for (const reader::Frame& frame : from.frames)
    to->frame[to->frames++] = {frame.address, frame.offset, AddString(frame.module, header), 0};
}

void FillException(const reader::Exception& from, format::Exception* to) {
  to->at_ns = from.at_ns;
  to->language = static_cast<std::uint32_t>(from.language);
  to->thread = from.thread;
  Put(from.type, to->type);
  Put(from.message, to->message);
  Put(from.place, to->place);
}

void FillAllocation(const reader::FailedAllocation& from, format::FailedAllocation* to) {
  to->at_ns = from.at_ns;
  to->recovered_ns = from.recovered_ns;
  to->bytes = from.bytes;
  to->free_bytes = from.free_bytes;
  to->total_bytes = from.total_bytes;
  to->function = from.function;
  to->result = from.result;
  to->device = from.device;
  to->thread = from.thread;
}

void FillError(const reader::NcclError& from, format::NcclError* to) {
  to->at_ns = from.at_ns;
  to->slot = from.slot;
  to->function = static_cast<std::uint32_t>(from.function);
  to->communicator = from.communicator;
  to->generation = from.generation;
  to->result = from.result;
  to->thread = from.thread;
  to->flags = from.asynchronous ? format::kErrorAsynchronous : 0u;
  Put(from.text, to->text);
}

void FillMisuse(const reader::Misuse& from, format::Header* header, format::Misuse* to) {
  to->at_ns = from.at_ns;
  to->site = from.site;
  to->made_at = from.made_at;
  to->value = from.value;
  to->limit = from.limit;
  to->times = from.times;
  to->wrong = static_cast<std::uint32_t>(from.wrong);
  to->function = static_cast<std::uint32_t>(from.function);
  to->made_by = static_cast<std::uint32_t>(from.made_by);
  to->communicator = from.communicator;
  to->generation = from.generation;
  to->thread = from.thread;
  to->result = from.result;
  to->tells_program = from.tells_program ? 1u : 0u;
  to->site_name = AddString(from.site_name, header);
  to->made_at_name = AddString(from.made_at_name, header);
}

void FillWords(const reader::Words& from, format::Header* header) {
  auto* to = At<format::Words>(header, header->words);
  to->memory_at_ns = from.memory.at_ns;
  to->resident_bytes = from.memory.resident_bytes;
  to->available_bytes = from.memory.available_bytes;
  to->catching = from.catching ? 1 : 0;
  for (const reader::FatalSignal& signal : from.signals) {
    const std::uint64_t number = to->signals_seen++;
    FillSignal(signal, header, &to->signals[number % format::kFatalSignals]);
    to->signals[number % format::kFatalSignals].commit = number + 1;
  }
  for (const reader::Exception& exception : from.exceptions) {
    const std::uint64_t number = to->exceptions_seen++;
    FillException(exception, &to->exceptions[number % format::kExceptions]);
    to->exceptions[number % format::kExceptions].commit = number + 1;
  }
  for (const reader::FailedAllocation& failed : from.allocations) {
    const std::uint64_t number = to->allocations_failed++;
    FillAllocation(failed, &to->allocations[number % format::kFailedAllocations]);
    to->allocations[number % format::kFailedAllocations].commit = number + 1;
  }
  for (const reader::NcclError& error : from.errors) {
    const std::uint64_t number = to->errors_seen++;
    FillError(error, &to->errors[format::NcclErrorSlot(number)]);
    to->errors[format::NcclErrorSlot(number)].commit = number + 1;
  }
  for (const reader::Misuse& misuse : from.misuses) {
    const std::uint64_t number = to->misuses_seen++;
    if (number >= format::kMisuses) continue;
    FillMisuse(misuse, header, &to->misuses[number]);
    to->misuses[number].commit = number + 1;
  }
}

}  // namespace

std::vector<char> BoxBytes(const reader::BoxImage& image, std::uint32_t ring) {
  BoxSize size{.records = ring, .peers = 64, .observations = 64};
  size.communicators = static_cast<std::uint32_t>(image.communicators.size() + 1);
  const BoxLayout layout = LayOut(size);
  auto* base = static_cast<char*>(::operator new(layout.bytes, std::align_val_t(format::kPage)));
  std::memset(base, 0, layout.bytes);
  auto* header = new (base) format::Header();
  PutLayout(layout, header);
  FillHeader(image, header);
  for (std::size_t i = 0; i < image.communicators.size(); ++i)
    FillCommunicator(image.communicators[i], At<format::Communicator>(header, layout.communicators) + i);
  for (const reader::Call& call : image.calls)
    FillRecord(call, At<format::Record>(header, layout.records) + call.slot % ring);
  for (std::size_t i = 0; i < image.observations.size(); ++i)
    FillObservation(image.observations[i], i, At<format::Observation>(header, layout.observations) + i);
  FillPeers(image, At<format::Peer>(header, layout.peers), size.peers);
  for (const reader::CallParts& parts : image.parts) FillParts(parts, header);
  FillWords(image.words, header);
  Publish(header);
  std::vector<char> bytes(base, base + layout.bytes);
  ::operator delete(base, std::align_val_t(format::kPage));
  return bytes;
}

void WriteBox(const reader::BoxImage& image, const std::string& path, std::uint32_t ring) {
  const std::vector<char> bytes = BoxBytes(image, ring);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace ncclwatch::testing
