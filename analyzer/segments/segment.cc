#include "analyzer/segments/segment.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <set>

#include "analyzer/segments/segment_calls.h"
#include "core/nodes/bytes.h"
#include "core/nodes/image_code.h"
#include "core/reader/layout.h"
#include "ncclwatch/format/event.h"
#include "ncclwatch/format/note.h"

namespace ncclwatch::analyzer {
namespace {

using format::SegmentHeader;

constexpr int kLevel = 3;  // of zstd: higher ones gain a tenth and cost the job its processor
constexpr std::size_t kMostName = 255;
constexpr std::size_t kBehindChecksum = offsetof(SegmentHeader, checksum) + sizeof(SegmentHeader::checksum);

std::uint32_t ChecksumOf(std::string_view segment) {
  const std::string_view covered = segment.substr(kBehindChecksum);
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(covered.data()), covered.size()));
}

std::vector<SlotRange> LostIn(const std::vector<reader::Call>& calls, std::uint64_t begin, std::uint64_t end) {
  std::vector<SlotRange> lost;
  const auto until = [&](std::uint64_t slot) {
    if (begin < slot) lost.push_back({begin, slot});
  };
  for (const reader::Call& call : calls) {
    until(call.slot);
    begin = call.slot + 1;
  }
  until(end);
  return lost;
}

std::string IndexOf(const reader::BoxImage& image, const std::vector<SlotRange>& lost) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> used;
  for (const reader::Call& call : image.calls) used.insert({call.communicator, call.generation});
  std::vector<const reader::Communicator*> communicators;
  for (const reader::Communicator& one : image.communicators)
    if (used.contains({one.index, one.generation})) communicators.push_back(&one);
  nodes::Writer to;
  to.Text(image.host, kMostName).Text(image.boot_id, kMostName).Number(communicators.size());
  for (const reader::Communicator* one : communicators) {
    to.Whole(one->id).Whole(one->parent).Number(one->parent_ordinal).Text(one->label, format::kLabelBytes);
    to.Number(one->rank).Number(one->size).Number(one->flags).Signed(one->color);
  }
  to.Number(lost.size());
  for (const SlotRange& range : lost) to.Number(range.begin).Number(range.count());
  return to.Take();
}

// What the program said of itself: notes and the names of events.
void WriteSaid(const reader::BoxImage& image, nodes::Writer* to) {
  to->Number(image.notes.size());
  for (const reader::Note& note : image.notes)
    to->Number(static_cast<std::uint64_t>(note.kind))
        .Signed(note.at_ns)
        .Signed(note.step)
        .Whole(std::bit_cast<std::uint64_t>(note.value))
        .Text(note.name, kMostName);
  to->Number(image.events.size());
  for (const reader::Event& event : image.events)
    to->Signed(event.at_ns).Signed(event.step).Text(event.type, kMostName);
}

void ReadSaid(nodes::Reader* from, reader::BoxImage* image) {
  for (std::uint64_t left = from->NumberUpTo(format::kNoteCapacity); left > 0 && from->ok(); --left) {
    reader::Note& note = image->notes.emplace_back();
    note.kind = static_cast<format::NoteKind>(from->NumberUpTo(static_cast<std::uint64_t>(format::NoteKind::kMetric)));
    note.at_ns = from->Signed();
    note.step = from->Signed();
    note.value = std::bit_cast<double>(from->Whole());
    note.name = from->Text(kMostName);
  }
  for (std::uint64_t left = from->NumberUpTo(format::kEventCapacity); left > 0 && from->ok(); --left) {
    reader::Event& event = image->events.emplace_back();
    event.at_ns = from->Signed();
    event.step = from->Signed();
    event.type = from->Text(kMostName);
  }
}

// A job is judged as of its verdict. Leaders do not tell one another of it, so the image has no place for it.
void WriteLeader(const reader::LeaderState& leader, nodes::Writer* to) {
  to->Signed(leader.suspect_after_ns).Signed(leader.likely_after_ns).Signed(leader.verdict_at_ns);
  to->Signed(leader.longest_wait_ns).Number(leader.waits).Number(leader.generation);
  to->Signed(leader.job_minus_monotonic_ns);
}

reader::LeaderState ReadLeader(nodes::Reader* from) {
  reader::LeaderState leader;
  leader.suspect_after_ns = from->Signed();
  leader.likely_after_ns = from->Signed();
  leader.verdict_at_ns = from->Signed();
  leader.longest_wait_ns = from->Signed();
  leader.waits = from->Number();
  leader.generation = from->Number();
  leader.job_minus_monotonic_ns = from->Signed();
  return leader;
}

// ---- what only another tool's trace tells ----

constexpr std::uint8_t kDump = 1, kActiveOnly = 2, kOrdered = 4, kWindow = 8;  // flags
constexpr std::size_t kLeastOperation = 8;                                     // bytes

void WriteMembers(const reader::BoxImage& image, nodes::Writer* to) {
  for (const reader::Communicator& one : image.communicators) {
    to->Number(one.members ? one.members->size() : 0);
    if (!one.members) continue;
    std::int64_t last = 0;
    for (const std::int32_t rank : *one.members) to->Signed(rank - std::exchange(last, rank));
  }
}

void ReadMembers(nodes::Reader* from, reader::BoxImage* image) {
  for (reader::Communicator& one : image->communicators) {
    const std::uint64_t count = from->NumberUpTo(std::min<std::uint64_t>(from->left(), reader::kMaxCommunicatorSize));
    if (count == 0) continue;
    std::vector<std::int32_t> ranks;
    std::int64_t last = 0;
    for (std::uint64_t i = 0; i < count && from->ok(); ++i) {
      last += from->Signed32();
      if (last < -1 || last > INT32_MAX) from->Fail();
      ranks.push_back(static_cast<std::int32_t>(last));
    }
    from->Made(count * sizeof(std::int32_t));
    one.members = std::make_shared<const std::vector<std::int32_t>>(std::move(ranks));
  }
}

void WriteOperations(const reader::Operations& operations, nodes::Writer* to) {
  to->Number(operations.names.size());
  for (const std::string& name : operations.names) to->Text(name, kMostName);
  to->Number(operations.all.size());
  std::int64_t last_ns = 0;
  for (const reader::Operation& one : operations.all) {
    to->Byte(static_cast<std::uint8_t>(one.kind)).Signed(one.began_ns - std::exchange(last_ns, one.began_ns));
    to->Signed(one.duration_ns).Signed(one.step).Number(one.lane).Number(one.meets).Number(one.call).Number(one.bytes);
    to->Number(one.name).Number(one.like).Number(one.after.size());
    for (const std::uint32_t other : one.after) to->Number(other);
  }
}

void ReadOperations(nodes::Reader* from, reader::Operations* operations) {
  for (std::uint64_t left = from->NumberUpTo(from->left()); left > 0 && from->ok(); --left)
    operations->names.emplace_back(from->Text(kMostName));
  if (operations->names.empty()) {
    from->NumberUpTo(0);
    return;
  }
  const std::uint64_t last_name = operations->names.size() - 1;
  std::int64_t last_ns = 0;
  for (std::uint64_t left = from->NumberUpTo(from->left() / kLeastOperation); left > 0 && from->ok(); --left) {
    reader::Operation& one = operations->all.emplace_back();
    from->Made(sizeof one);
    one.kind =
        static_cast<reader::OperationKind>(from->NumberUpTo(static_cast<std::uint64_t>(reader::OperationKind::kStep)));
    one.began_ns = last_ns =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(last_ns) + static_cast<std::uint64_t>(from->Signed()));
    one.duration_ns = from->Signed();
    one.step = from->Signed();
    one.lane = from->Number();
    one.meets = from->Number();
    one.call = from->Number();
    one.bytes = from->Number();
    one.name = from->NumberAs<std::uint32_t>(last_name);
    one.like = from->NumberAs<std::uint32_t>(last_name);
    for (std::uint64_t after = from->NumberUpTo(from->left()); after > 0 && from->ok(); --after)
      one.after.push_back(from->NumberAs<std::uint32_t>());
  }
}

void WriteForeign(const reader::BoxImage& image, nodes::Writer* to) {
  to->Byte(static_cast<std::uint8_t>((image.dump ? kDump : 0) | (image.active_only ? kActiveOnly : 0) |
                                     (image.operations.ordered ? kOrdered : 0) | (image.window ? kWindow : 0)));
  to->Signed(image.stage).Signed(image.replica);
  WriteMembers(image, to);
  WriteOperations(image.operations, to);
}

void ReadForeign(nodes::Reader* from, reader::BoxImage* image) {
  const std::uint8_t flags = from->Byte();
  image->dump = (flags & kDump) != 0;
  image->active_only = (flags & kActiveOnly) != 0;
  image->operations.ordered = (flags & kOrdered) != 0;
  image->window = (flags & kWindow) != 0;
  image->stage = from->Signed32();
  image->replica = from->Signed32();
  ReadMembers(from, image);
  ReadOperations(from, &image->operations);
}

std::string Compressed(const std::string& payload) {
  std::string frame(ZSTD_compressBound(payload.size()), '\0');
  const std::size_t size = ZSTD_compress(frame.data(), frame.size(), payload.data(), payload.size(), kLevel);
  if (ZSTD_isError(size)) throw std::bad_alloc();  // there is no other reason
  frame.resize(size);
  return frame;
}

absl::Status Damaged(const char* what) { return absl::DataLossError(what); }

}  // namespace

std::string ToSegment(const reader::BoxImage& image, std::uint64_t begin, std::uint64_t end, bool last) {
  nodes::Writer payload;
  nodes::WriteImage(image, &payload);
  WriteSaid(image, &payload);
  WriteLeader(image.leader_state, &payload);
  payload.Byte(last ? 1 : 0);
  WriteForeign(image, &payload);
  const std::string index = IndexOf(image, LostIn(image.calls, begin, end)), frame = Compressed(payload.bytes());
  SegmentHeader header{};
  std::memcpy(header.magic, format::kSegmentMagic, sizeof header.magic);
  header.version = format::kSegmentVersion;
  header.bytes = sizeof header + index.size() + frame.size();
  header.payload_bytes = payload.size();
  header.index_bytes = static_cast<std::uint32_t>(index.size());
  header.rank = image.rank;
  header.begin_slot = begin;
  header.end_slot = end;
  header.calls = image.calls.size();
  for (const reader::Call& call : image.calls) {
    const std::int64_t at = call.entered_ns + image.realtime_minus_monotonic_ns;
    header.first_ns = header.first_ns == 0 ? at : std::min(header.first_ns, at);
    header.last_ns = std::max(header.last_ns, at);
  }
  header.start_time = image.start_time;
  header.pid = image.pid;
  header.operations = static_cast<std::uint32_t>(image.operations.all.size());
  std::string segment(reinterpret_cast<const char*>(&header), sizeof header);
  segment += index;
  segment += frame;
  header.checksum = ChecksumOf(segment);
  std::memcpy(segment.data(), &header, sizeof header);
  return segment;
}

absl::StatusOr<SegmentHeader> ReadSegmentHeader(std::string_view bytes, std::uint64_t available) {
  if (bytes.size() < sizeof(SegmentHeader)) return Damaged("cut off in the header of a segment");
  SegmentHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, format::kSegmentMagic, sizeof header.magic) != 0) return Damaged("not a segment");
  if (header.version < format::kOldestSegmentVersion || header.version > format::kSegmentVersion)
    return absl::UnimplementedError("a segment of version " + std::to_string(header.version) +
                                    "; this ncclwatch reads " + std::to_string(format::kSegmentVersion));
  if (header.bytes < sizeof header || header.bytes > format::kMostSegmentBytes ||
      header.index_bytes > header.bytes - sizeof header || header.payload_bytes > nodes::kMostMade ||
      header.begin_slot > header.end_slot || header.calls > header.end_slot - header.begin_slot)
    return Damaged("a segment whose header cannot be");
  if (header.bytes > available) return Damaged("cut off in a segment");
  return header;
}

absl::StatusOr<SegmentIndex> ReadSegmentIndex(std::string_view bytes) {
  const auto header = ReadSegmentHeader(bytes, UINT64_MAX);
  if (!header.ok()) return header.status();
  if (bytes.size() < sizeof(SegmentHeader) + header->index_bytes) return Damaged("cut off in the index of a segment");
  SegmentIndex index{*header, {}, {}, {}, {}};
  nodes::Reader from(bytes.substr(sizeof(SegmentHeader), header->index_bytes));
  index.host = from.Text(kMostName);
  index.boot_id = from.Text(kMostName);
  for (std::uint64_t left = from.NumberUpTo(from.left()); left > 0 && from.ok(); --left) {
    IndexedCommunicator& one = index.communicators.emplace_back();
    one.id = from.Whole();
    one.parent = from.Whole();
    one.parent_ordinal = from.Number();
    one.label = from.Text(format::kLabelBytes);
    one.rank = from.NumberAs<std::uint32_t>();
    one.size = from.NumberAs<std::uint32_t>(reader::kMaxCommunicatorSize);
    one.flags = from.NumberAs<std::uint32_t>();
    one.color = from.Signed32();
  }
  std::uint64_t missing = header->end_slot - header->begin_slot - header->calls, next = header->begin_slot;
  for (std::uint64_t left = from.NumberUpTo(from.left()); left > 0 && from.ok(); --left) {
    SlotRange range{from.Number(), 0};
    const std::uint64_t count = from.NumberUpTo(missing);
    range.end = range.begin + count;
    if (range.begin < next || range.end > header->end_slot) from.Fail();
    missing -= count;
    next = range.end;
    index.lost.push_back(range);
  }
  if (!from.Done() || missing != 0) return Damaged("a segment with a damaged index");
  return index;
}

absl::StatusOr<std::unique_ptr<SegmentCalls>> SegmentCalls::Open(std::string_view bytes) {
  const auto header = ReadSegmentHeader(bytes, bytes.size());
  if (!header.ok()) return header.status();
  bytes = bytes.substr(0, header->bytes);
  if (ChecksumOf(bytes) != header->checksum) return Damaged("a segment whose checksum is wrong");
  const std::string_view frame = bytes.substr(sizeof(SegmentHeader) + header->index_bytes);
  std::unique_ptr<SegmentCalls> made(new SegmentCalls(*header));
  made->payload_.resize(header->payload_bytes);
  const std::size_t size = ZSTD_decompress(made->payload_.data(), made->payload_.size(), frame.data(), frame.size());
  if (ZSTD_isError(size) || size != made->payload_.size()) return Damaged("a segment that cannot be uncompressed");
  made->from_ = nodes::Reader(made->payload_);
  if (!nodes::ReadBeforeCalls(&made->from_, &made->image, &made->left_)) return Damaged("a segment with damaged calls");
  if (made->left_ != header->calls || made->image.pid != header->pid || made->image.start_time != header->start_time)
    return Damaged("a segment that contradicts its header");
  return made;
}

const reader::Call* SegmentCalls::Next() {
  if (left_ == 0 || !in_order_) return nullptr;
  const reader::Call& call = memory_.Read(&from_);
  if (!from_.ok()) return nullptr;
  --left_;
  in_order_ = call.slot >= next_slot_ && call.slot < header_.end_slot;
  next_slot_ = call.slot + 1;
  mpi_ = mpi_ || functions::IsMpi(call.function);
  if (!in_order_) return nullptr;
  if (keeps_all_ || (call.flags & format::kHasParts) != 0) image.calls.push_back(call);
  return &call;
}

void SegmentCalls::KeepAll() {
  image.calls.reserve(left_);
  keeps_all_ = true;
  while (Next()) {
  }
}

absl::Status SegmentCalls::Finish() {
  while (Next()) {
  }
  if (!in_order_) return Damaged("a segment with calls out of order");
  const bool read = left_ == 0 && nodes::ReadBehindCalls(&from_, mpi_, &image);
  if (read && header_.version >= format::kFirstSegmentVersionWithNotes) ReadSaid(&from_, &image);
  image.from_summary = true;  // unless it is the last of its process
  if (read && header_.version >= format::kFirstSegmentVersionWithLeader) {
    image.leader_state = ReadLeader(&from_);
    image.from_summary = from_.Byte() == 0;
  }
  if (read && header_.version >= format::kFirstSegmentVersionWithOperations) ReadForeign(&from_, &image);
  if (!read || !from_.Done()) return Damaged("a segment with damaged calls");
  if (header_.version >= format::kFirstSegmentVersionWithOperations &&
      image.operations.all.size() != header_.operations)
    return Damaged("a segment that contradicts its header");
  payload_ = std::string();
  return absl::OkStatus();
}

absl::StatusOr<reader::BoxImage> ReadSegment(std::string_view bytes) {
  const auto segment = SegmentCalls::Open(bytes);
  if (!segment.ok()) return segment.status();
  (*segment)->KeepAll();
  if (const absl::Status finished = (*segment)->Finish(); !finished.ok()) return finished;
  return std::move((*segment)->image);
}

}  // namespace ncclwatch::analyzer
