// One sequence of packets in a trace of Perfetto: texts are written once and called by numbers from then on, times
// count from the sequence's own zero.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/export/calls/perfetto_fields.h"
#include "analyzer/export/calls/perfetto_writer.h"

namespace ncclwatch::analyzer::exporting::perfetto {

// What goes into the trace's file next.
class Sequence {
 public:
  // `out` outlives it. zero_ns: CLOCK_REALTIME of its first event.
  Sequence(std::uint32_t id, std::int64_t zero_ns, ByteBuffer* out);

  // An event, between Begin() and End(). uuid: of its track.
  void Begin(std::int64_t time_ns, std::uint64_t type, std::uint64_t uuid);
  void Name(std::uint64_t key, std::string_view text) { Put(event::kNameIid, Of(interned::kEventName, key, text)); }
  void Category(std::uint64_t key, std::string_view text) {
    Put(event::kCategoryIid, Of(interned::kCategory, key, text));
  }
  void Flow(std::uint64_t id) { event_.add_fixed64(event::kFlow, id); }
  void Counter(std::uint64_t uuid, std::uint64_t value) {
    Put(event::kCounterTrack, uuid);
    Put(event::kCounterValue, value);
  }
  void Counter(std::uint64_t uuid, double value) {
    Put(event::kDoubleCounterTrack, uuid);
    event_.add_double(event::kDoubleCounterValue, value);
  }
  // Arguments of an event. Keys of their names are small, keys of texts any.
  static constexpr std::size_t kMostArguments = 32;
  struct Argument {
    std::size_t key;
    std::string_view name;
  };
  void Uint(Argument argument, std::uint64_t value) { Annotate(argument, annotation::kUint, value); }
  void Int(Argument argument, std::int64_t value) {
    Annotate(argument, annotation::kInt, static_cast<std::uint64_t>(value));
  }
  void Bool(Argument argument, bool value) { Annotate(argument, annotation::kBool, value ? 1 : 0); }
  void Pointer(Argument argument, std::uint64_t value) { Annotate(argument, annotation::kPointer, value); }
  void Double(Argument argument, double value) {
    Annotation(argument, sizeof value).add_double(annotation::kDouble, value);
  }
  // `text` gives what is written for this key the first time.
  template <typename MakeText>
  void Text(Argument argument, std::uint64_t key, MakeText text) {
    const auto known = iids_.find(KeyOf(interned::kText, key));
    Annotate(argument, annotation::kTextIid,
             known != iids_.end() ? known->second : Of(interned::kText, key, std::string(text())));
  }
  void End();

  void Track(std::uint64_t uuid, std::uint64_t parent, std::string_view name);
  void Process(std::uint64_t uuid, std::uint64_t number, std::string_view name);
  void CounterTrack(std::uint64_t uuid, std::uint64_t parent, std::string_view name, std::string_view unit);

 private:
  using Key = std::pair<Field, std::uint64_t>;
  static Key KeyOf(Field kind, std::uint64_t key) { return {kind, key}; }
  // `fill` writes the fields of the next packet.
  template <typename Fill>
  void Packet(Fill fill);
  void WriteClocks();
  std::uint64_t Of(Field kind, std::uint64_t key, std::string_view text);
  void Put(Field field, std::uint64_t value) { event_.add_uint64(field, value); }
  // Its value, of so many bytes, is to be added, under a field's number of one or two bytes.
  Writer Annotation(Argument argument, std::size_t value_bytes, std::size_t field_bytes = 1);
  void Annotate(Argument argument, Field field, std::uint64_t value) {
    constexpr Field kFirstOfTwoBytes = 16;
    Annotation(argument, BytesOf(value), field < kFirstOfTwoBytes ? 1 : 2).add_uint64(field, value);
  }
  static std::size_t BytesOf(std::uint64_t value) {
    return static_cast<std::size_t>(protozero::length_of_varint(value));
  }

  const std::uint32_t id_;
  const std::int64_t zero_ns_;
  ByteBuffer* const out_;
  bool begun_ = false;
  std::int64_t time_ns_ = 0;  // of the event
  ByteBuffer event_bytes_, interned_bytes_;
  Writer event_{event_bytes_}, interned_{interned_bytes_};
  std::array<std::uint64_t, kMostArguments> argument_iids_{};  // 0: not written yet
  absl::flat_hash_map<Key, std::uint64_t> iids_;
  absl::flat_hash_map<Field, std::uint64_t> last_iid_;
};

}  // namespace ncclwatch::analyzer::exporting::perfetto
