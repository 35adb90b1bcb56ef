#include "analyzer/export/calls/perfetto_sequence.h"

#include <algorithm>

namespace ncclwatch::analyzer::exporting::perfetto {

Sequence::Sequence(std::uint32_t id, std::int64_t zero_ns, ByteBuffer* out) : id_(id), zero_ns_(zero_ns), out_(out) {}

template <typename Fill>
void Sequence::Packet(Fill fill) {
  if (!std::exchange(begun_, true)) WriteClocks();
  Writer trace(*out_);
  Writer packet(trace, trace::kPacket);
  packet.add_uint32(packet::kSequenceId, id_);
  fill(packet);
}

// The first packet of the sequence says what its times are.
void Sequence::WriteClocks() {
  Packet([&](Writer& packet) {
    {
      Writer clocks(packet, packet::kClockSnapshot);
      const auto clock = [&](std::uint64_t id, std::uint64_t at) {
        Writer one(clocks, clock::kClocks);
        one.add_uint64(clock::kId, id);
        one.add_uint64(clock::kTimestamp, at);
      };
      const auto zero = static_cast<std::uint64_t>(zero_ns_);
      clock(clock::kFirstOfSequence, 0);
      clock(clock::kRealtime, zero);
      // The trace's own clock: a job has one on each node, and this is what they have in common.
      clock(clock::kBoottime, zero);
    }
    packet.add_uint64(packet::kSequenceFlags, packet::kIncrementalStateCleared);
    Writer(packet, packet::kDefaults).add_uint64(packet::kTimestampClockId, clock::kFirstOfSequence);
  });
}

void Sequence::Begin(std::int64_t time_ns, std::uint64_t type, std::uint64_t uuid) {
  event_bytes_.Clear();
  time_ns_ = time_ns;
  Put(event::kType, type);
  Put(event::kTrack, uuid);
}

void Sequence::End() {
  Packet([&](Writer& packet) {
    packet.add_uint64(packet::kTimestamp, static_cast<std::uint64_t>(std::max<std::int64_t>(0, time_ns_ - zero_ns_)));
    packet.add_uint64(packet::kSequenceFlags, packet::kNeedsIncrementalState);
    if (!interned_bytes_.empty())
      packet.add_message(packet::kInternedData, interned_bytes_.view().data(), interned_bytes_.size());
    packet.add_message(packet::kTrackEvent, event_bytes_.view().data(), event_bytes_.size());
  });
  interned_bytes_.Clear();
}

std::uint64_t Sequence::Of(Field kind, std::uint64_t key, std::string_view text) {
  const auto [found, made] = iids_.try_emplace(KeyOf(kind, key), 0);
  if (!made) return found->second;
  found->second = ++last_iid_[kind];
  Writer entry(interned_, kind);
  entry.add_uint64(interned::kIid, found->second);
  entry.add_string(interned::kString, text.data(), text.size());
  return found->second;
}

Writer Sequence::Annotation(Argument argument, std::size_t value_bytes, std::size_t field_bytes) {
  std::uint64_t& iid = argument_iids_[argument.key];
  if (iid == 0) iid = Of(interned::kAnnotationName, argument.key, argument.name);
  Writer one(event_, event::kAnnotation, 1 + BytesOf(iid) + field_bytes + value_bytes);
  one.add_uint64(annotation::kNameIid, iid);
  return one;
}

void Sequence::Track(std::uint64_t uuid, std::uint64_t parent, std::string_view name) {
  Packet([&](Writer& packet) {
    Writer track(packet, packet::kTrackDescriptor);
    track.add_uint64(track::kUuid, uuid);
    if (parent != 0) track.add_uint64(track::kParent, parent);
    track.add_string(track::kName, name.data(), name.size());
  });
}

void Sequence::Process(std::uint64_t uuid, std::uint64_t number, std::string_view name) {
  Packet([&](Writer& packet) {
    Writer track(packet, packet::kTrackDescriptor);
    track.add_uint64(track::kUuid, uuid);
    Writer process(track, track::kProcess);
    process.add_uint64(track::kPid, number);
    process.add_string(track::kProcessName, name.data(), name.size());
  });
}

void Sequence::CounterTrack(std::uint64_t uuid, std::uint64_t parent, std::string_view name, std::string_view unit) {
  Packet([&](Writer& packet) {
    Writer track(packet, packet::kTrackDescriptor);
    track.add_uint64(track::kUuid, uuid);
    track.add_uint64(track::kParent, parent);
    track.add_string(track::kName, name.data(), name.size());
    // Without a field it would be left out, and the track would be no counter.
    Writer counter(track, track::kCounter);
    counter.add_string(track::kUnitName, unit.data(), unit.size());
  });
}

}  // namespace ncclwatch::analyzer::exporting::perfetto
