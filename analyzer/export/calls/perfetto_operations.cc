#include "analyzer/export/calls/perfetto_operations.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "analyzer/export/calls/perfetto_sequence.h"
#include "core/text/printable.h"
#include "ncclwatch/format/note.h"

namespace ncclwatch::analyzer::exporting::perfetto {
namespace {

constexpr Sequence::Argument kStepOf{1, "step"}, kBytesOf{2, "bytes"}, kCallOf{3, "seq of its call"};

// Streams of GPUs have their device above 32 bits, counted from 1.
std::string LaneName(const reader::Operation& one) {
  if (one.kind == reader::OperationKind::kStep) return "steps";
  const std::uint64_t device = one.lane >> 32, stream = one.lane & UINT32_MAX;
  return device == 0 ? fmt::format("lane {}", stream) : fmt::format("GPU {} stream {}", device - 1, stream);
}

// Slices of one track must not overlap: each goes to a track of its lane that is free.
class Lanes {
 public:
  Lanes(std::uint64_t process, std::uint64_t* uuids, Sequence* out) : process_(process), uuids_(*uuids), out_(*out) {}

  std::uint64_t TrackFor(const reader::Operation& one) {
    auto& tracks = tracks_of_[one.lane];
    const auto free =
        std::find_if(tracks.begin(), tracks.end(), [&](const auto& track) { return track.first <= one.began_ns; });
    const std::int64_t end = one.began_ns + one.duration_ns;
    if (free != tracks.end()) {
      free->first = end;
      return free->second;
    }
    tracks.emplace_back(end, ++uuids_);
    out_.Track(uuids_, process_, LaneName(one));
    return uuids_;
  }

 private:
  const std::uint64_t process_;
  std::uint64_t& uuids_;
  Sequence& out_;
  absl::flat_hash_map<std::uint64_t, std::vector<std::pair<std::int64_t, std::uint64_t>>> tracks_of_;  // end, uuid
};

}  // namespace

reader::Operations OperationsByTime(const ProcessRecording& process) {
  if (!process.has_operations()) return {};
  std::vector<reader::Failure> ignored;
  reader::Operations operations = process.OperationsOf(&ignored);
  for (reader::Operation& one : operations.all) one.began_ns += process.process().realtime_minus_monotonic_ns;
  for (std::string& name : operations.names) name = Printable(name);
  std::stable_sort(operations.all.begin(), operations.all.end(),
                   [](const auto& a, const auto& b) { return a.began_ns < b.began_ns; });
  return operations;
}

void WriteOperations(const reader::Operations& operations, std::uint32_t sequence, std::uint64_t process,
                     std::uint64_t* uuids, ByteBuffer* packets) {
  if (operations.all.empty()) return;
  Sequence out(sequence, operations.all.front().began_ns, packets);
  Lanes lanes(process, uuids, &out);
  for (const reader::Operation& one : operations.all) {
    const std::uint64_t track = lanes.TrackFor(one);
    const auto kind = static_cast<std::size_t>(one.kind);
    out.Begin(one.began_ns, event::kBegin, track);
    out.Name(one.name, operations.names[one.name]);
    out.Category(kind, reader::kOperationKinds[kind]);
    if (one.step != format::kNoStep) out.Int(kStepOf, one.step);
    if (one.bytes > 0) out.Uint(kBytesOf, one.bytes);
    if (one.call > 0) out.Uint(kCallOf, one.call - 1);
    out.End();
    out.Begin(one.began_ns + one.duration_ns, event::kEnd, track);
    out.End();
  }
}

}  // namespace ncclwatch::analyzer::exporting::perfetto
