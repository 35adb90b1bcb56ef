#include "analyzer/export/calls/perfetto_sequence.h"

#include <algorithm>

namespace ncclwatch::analyzer::exporting::perfetto {

Sequence::Sequence(std::uint32_t id, std::int64_t zero_ns, ProtobufWriter* out)
    : id_(id), zero_ns_(zero_ns), out_(out) {}

// The first packet of the sequence says what its times are.
std::size_t Sequence::OpenPacket() {
  const bool first = !begun_;
  begun_ = true;
  if (first) {
    const std::size_t packet = OpenPacket();
    const std::size_t clocks = out_->Begin(packet::kClockSnapshot);
    const auto clock = [&](std::uint64_t id, std::uint64_t at) {
      const std::size_t one = out_->Begin(clock::kClocks);
      out_->Number(clock::kId, id);
      out_->Number(clock::kTimestamp, at);
      out_->End(one);
    };
    const auto zero = static_cast<std::uint64_t>(zero_ns_);
    clock(clock::kFirstOfSequence, 0);
    clock(clock::kRealtime, zero);
    clock(clock::kBoottime,
          zero);  // that of the trace: a job has one on each node, and what they have in common counts
    out_->End(clocks);
    out_->Number(packet::kSequenceFlags, packet::kIncrementalStateCleared);
    const std::size_t defaults = out_->Begin(packet::kDefaults);
    out_->Number(packet::kTimestampClockId, clock::kFirstOfSequence);
    out_->End(defaults);
    ClosePacket(packet);
  }
  const std::size_t packet = out_->Begin(trace::kPacket);
  out_->Number(packet::kSequenceId, id_);
  return packet;
}

void Sequence::ClosePacket(std::size_t packet) { out_->End(packet); }

void Sequence::Begin(std::int64_t time_ns, std::uint64_t type, std::uint64_t uuid) {
  event_.Clear();
  time_ns_ = time_ns;
  Put(event::kType, type);
  Put(event::kTrack, uuid);
}

void Sequence::End() {
  const std::size_t packet = OpenPacket();
  out_->Number(packet::kTimestamp, static_cast<std::uint64_t>(std::max<std::int64_t>(0, time_ns_ - zero_ns_)));
  out_->Number(packet::kSequenceFlags, packet::kNeedsIncrementalState);
  if (!interned_.bytes().empty()) out_->Text(packet::kInternedData, interned_.bytes());
  interned_.Clear();
  out_->Text(packet::kTrackEvent, event_.bytes());
  ClosePacket(packet);
}

std::uint64_t Sequence::Of(Field kind, std::uint64_t key, std::string_view text) {
  const auto [found, made] = iids_.try_emplace(KeyOf(kind, key), 0);
  if (!made) return found->second;
  found->second = ++last_iid_[kind];
  const std::size_t entry = interned_.Begin(kind);
  interned_.Number(interned::kIid, found->second);
  interned_.Text(interned::kString, text);
  interned_.End(entry);
  return found->second;
}

void Sequence::NameArgument(Argument argument) {
  std::uint64_t& iid = argument_iids_[argument.key];
  if (iid == 0) iid = Of(interned::kAnnotationName, argument.key, argument.name);
  event_.Number(annotation::kNameIid, iid);
}

void Sequence::Annotate(Argument argument, Field field, std::uint64_t value) {
  const std::size_t one = event_.Begin(event::kAnnotation);
  NameArgument(argument);
  event_.Number(field, value);
  event_.End(one);
}

void Sequence::Double(Argument argument, double value) {
  const std::size_t one = event_.Begin(event::kAnnotation);
  NameArgument(argument);
  event_.Double(annotation::kDouble, value);
  event_.End(one);
}

void Sequence::Track(std::uint64_t uuid, std::uint64_t parent, std::string_view name) {
  const std::size_t packet = OpenPacket();
  const std::size_t track = out_->Begin(packet::kTrackDescriptor);
  out_->Number(track::kUuid, uuid);
  if (parent != 0) out_->Number(track::kParent, parent);
  out_->Text(track::kName, name);
  out_->End(track);
  ClosePacket(packet);
}

void Sequence::Process(std::uint64_t uuid, std::uint64_t number, std::string_view name) {
  const std::size_t packet = OpenPacket();
  const std::size_t track = out_->Begin(packet::kTrackDescriptor);
  out_->Number(track::kUuid, uuid);
  const std::size_t process = out_->Begin(track::kProcess);
  out_->Number(track::kPid, number);
  out_->Text(track::kProcessName, name);
  out_->End(process);
  out_->End(track);
  ClosePacket(packet);
}

void Sequence::CounterTrack(std::uint64_t uuid, std::uint64_t parent, std::string_view name, std::string_view unit) {
  const std::size_t packet = OpenPacket();
  const std::size_t track = out_->Begin(packet::kTrackDescriptor);
  out_->Number(track::kUuid, uuid);
  out_->Number(track::kParent, parent);
  out_->Text(track::kName, name);
  const std::size_t counter = out_->Begin(track::kCounter);
  if (!unit.empty()) out_->Text(track::kUnitName, unit);
  out_->End(counter);
  out_->End(track);
  ClosePacket(packet);
}

}  // namespace ncclwatch::analyzer::exporting::perfetto
