#include "analyzer/recording/recording.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "analyzer/jobs/locate.h"
#include "analyzer/segments/segment_calls.h"

namespace ncclwatch::analyzer {
namespace {

std::string KeyOf(const std::string& boot_id, const std::string& host, std::uint32_t pid, std::uint64_t start_time) {
  return fmt::format("{}/{}/{}/{}", boot_id, host, pid, start_time);
}

// Whoever uses an entry of the table later goes on with its marks and numbers.
void TakeMarks(const reader::BoxImage& newest, Piece* piece) {
  for (reader::Communicator& one : piece->communicators)
    for (const reader::Communicator& later : newest.communicators)
      if (later.index == one.index && later.generation == one.generation)
        one = later;
      else if (later.index == one.index && later.generation > one.generation)
        one.marks = later.marks, one.starts = later.starts, one.state = format::CommunicatorState::kDestroyed;
}

}  // namespace

void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // glibc's maximum; a piece has 14 MB
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

int ProcessRecording::rank() const {
  if (process_.rank >= 0) return process_.rank;
  for (const reader::Communicator& one : process_.communicators)
    if ((one.flags & format::kCommRankUnknown) == 0) return static_cast<int>(one.rank);
  return -1;
}

std::uint64_t ProcessRecording::lost_calls() const {
  std::uint64_t count = 0;
  for (const SlotRange& range : lost_) count += range.count();
  return count;
}

std::uint64_t ProcessRecording::end_slot() const {
  std::uint64_t end = ring_.empty() ? 0 : ring_.back().slot + 1;
  for (const Segment& segment : segments_) end = std::max(end, segment.place->index.header.end_slot);
  return end;
}

std::vector<IndexedCommunicator> ProcessRecording::communicators() const {
  std::vector<IndexedCommunicator> all;
  absl::flat_hash_set<std::uint64_t> seen;
  // The newest word on each counts: a split that had not settled has by then.
  for (const reader::Communicator& one : process_.communicators)
    if (seen.insert(one.id).second)
      all.push_back({one.id, one.parent, one.parent_ordinal, one.label, one.rank, one.size, one.flags, one.color});
  for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment)
    for (const IndexedCommunicator& one : segment->place->index.communicators)
      if (seen.insert(one.id).second) all.push_back(one);
  return all;
}

std::int64_t ProcessRecording::first_entered_ns() const { return ring_.empty() ? 0 : ring_.front().entered_ns; }

std::string LostText(const std::vector<SlotRange>& lost) {
  constexpr std::size_t kMost = 8;
  std::string text = "seq ";
  for (std::size_t i = 0; i < std::min(lost.size(), kMost); ++i) {
    if (i > 0) text += ", ";
    text +=
        lost[i].count() == 1 ? fmt::format("{}", lost[i].begin) : fmt::format("{}-{}", lost[i].begin, lost[i].end - 1);
  }
  return lost.size() > kMost ? text + ", ..." : text;
}

bool ProcessRecording::has_operations() const {
  return !process_.operations.all.empty() ||
         std::any_of(segments_.begin(), segments_.end(),
                     [](const Segment& segment) { return segment.place->index.header.operations > 0; });
}

reader::Operations ProcessRecording::OperationsOf(std::vector<reader::Failure>* failures) const {
  if (segments_.empty()) return process_.operations;
  reader::Operations whole;
  absl::flat_hash_map<std::string, std::uint32_t> name_of;
  for (const Segment& segment : segments_) {
    if (segment.place->index.header.operations == 0) continue;
    auto image = segment.file->Read(*segment.place);
    if (!image.ok()) {
      failures->push_back({segment.file->path(), std::string(image.status().message())});
      continue;
    }
    whole.ordered |= image->operations.ordered;
    std::vector<std::uint32_t> renamed;
    for (std::string& name : image->operations.names) {
      const auto [found, fresh] = name_of.try_emplace(name, static_cast<std::uint32_t>(whole.names.size()));
      if (fresh) whole.names.push_back(std::move(name));
      renamed.push_back(found->second);
    }
    for (reader::Operation& one : image->operations.all) {
      one.name = renamed[one.name];
      one.like = renamed[one.like];
      whole.all.push_back(std::move(one));
    }
  }
  return whole;
}

void ProcessRecording::Conclude() {
  // Of a trace of another tool, those behind its last call hold operations alone: they stay in the file's order.
  std::stable_sort(segments_.begin(), segments_.end(), [](const Segment& a, const Segment& b) {
    return a.place->index.header.begin_slot < b.place->index.header.begin_slot;
  });
  std::uint64_t next = 0;
  const auto lose = [&](std::uint64_t begin, std::uint64_t end) {
    if (begin < end) lost_.push_back({begin, end});
  };
  for (const Segment& segment : segments_) {
    const format::SegmentHeader& header = segment.place->index.header;
    lose(next, header.begin_slot);
    lost_.insert(lost_.end(), segment.place->index.lost.begin(), segment.place->index.lost.end());
    next = std::max(next, header.end_slot);
  }
  for (const reader::Call& call : ring_) {
    if (call.slot < next) continue;
    lose(next, call.slot);
    next = call.slot + 1;
  }
  if (has_box_) lose(next, process_.head);
}

PieceReader::PieceReader(const ProcessRecording& process) : process_(process) {}
PieceReader::~PieceReader() = default;

const Piece& PieceReader::piece() const { return calls_ ? calls_->image : process_.process_; }

const std::vector<reader::CallParts>& PieceReader::parts() const {
  return calls_ ? calls_->image.parts : process_.parts_;
}

bool PieceReader::Open(std::vector<reader::Failure>* failures) {
  calls_.reset();
  while (segment_ < process_.segments_.size()) {
    const ProcessRecording::Segment& segment = process_.segments_[segment_++];
    const format::SegmentHeader& header = segment.place->index.header;
    if (header.end_slot <= next_slot_ && header.operations == 0) continue;  // twice, by two collectors
    if (wants && !wants(segment.place->index)) {
      next_slot_ = header.end_slot;
      continue;
    }
    auto calls = segment.file->ReadCalls(*segment.place);
    if (!calls.ok()) {
      failures->push_back({segment.file->path(), std::string(calls.status().message())});
      continue;
    }
    calls_ = *std::move(calls);
    return true;
  }
  return false;
}

bool PieceReader::Finish(std::vector<reader::Failure>* failures) {
  const ProcessRecording::Segment& segment = process_.segments_[segment_ - 1];
  if (const absl::Status finished = calls_->Finish(); !finished.ok()) {
    const absl::Status failed = segment.file->At(segment.place->offset, finished);
    failures->push_back({segment.file->path(), std::string(failed.message())});
    return false;
  }
  next_slot_ = segment.place->index.header.end_slot;
  return true;
}

bool PieceReader::Next(Piece* piece, std::vector<reader::Failure>* failures) {
  while (Open(failures)) {
    calls_->KeepAll();
    const std::uint64_t first_slot = next_slot_;
    if (!Finish(failures)) continue;
    *piece = std::move(calls_->image);
    if (!piece->calls.empty() && piece->calls.front().slot < first_slot)
      std::erase_if(piece->calls, [&](const reader::Call& call) { return call.slot < first_slot; });
    Prepare(piece);
    return true;
  }
  if (std::exchange(ring_done_, true) || process_.ring_.empty()) return false;
  *piece = process_.process_;
  piece->calls = process_.ring_;
  piece->parts = process_.parts_;
  std::erase_if(piece->calls, [&](const reader::Call& call) { return call.slot < next_slot_; });
  return !piece->calls.empty();
}

bool PieceReader::Begin(std::vector<reader::Failure>* failures) {
  if (!Open(failures)) return !std::exchange(ring_done_, true);
  Prepare(&calls_->image);
  return true;
}

const reader::Call* PieceReader::NextCall(std::vector<reader::Failure>* failures) {
  if (!calls_) {
    while (in_ring_ < process_.ring_.size())
      if (const reader::Call& call = process_.ring_[in_ring_++]; call.slot >= next_slot_) return &call;
    return nullptr;
  }
  while (const reader::Call* const call = calls_->Next())
    if (call->slot >= next_slot_) return call;
  Finish(failures);
  return nullptr;
}

void PieceReader::Prepare(Piece* piece) const {
  const reader::BoxImage& newest = process_.process_;
  TakeMarks(newest, piece);
  piece->rank = newest.rank;
  piece->path = newest.path;
  piece->heartbeat_ns = newest.heartbeat_ns;
  piece->realtime_minus_monotonic_ns = newest.realtime_minus_monotonic_ns;
  piece->call_sites = newest.call_sites;
  piece->payloads = newest.payloads;
  piece->head = newest.head;
}

ProcessRecording* Recording::ProcessOf(const SegmentIndex& index) {
  const auto [found, made] =
      known_.emplace(KeyOf(index.boot_id, index.host, index.header.pid, index.header.start_time), processes_.size());
  if (made) processes_.emplace_back();
  return &processes_[found->second];
}

void Recording::AddSegments(const std::string& directory) {
  for (const std::string& path : SegmentFiles(directory)) {
    const auto file = SegmentFile::Open(path);
    if (!file.ok()) {
      run_.failures.push_back({path, std::string(file.status().message())});
      continue;
    }
    if (!(*file)->damage().ok()) run_.failures.push_back({path, std::string((*file)->damage().message())});
    for (const SegmentFile::Place& place : (*file)->places())
      ProcessOf(place.index)->segments_.push_back({*file, &place});
  }
}

// Their calls move to the processes.
void Recording::AddBoxes() {
  for (reader::BoxImage& box : run_.boxes) {
    ProcessRecording& process = processes_.emplace_back();
    process.ring_ = std::move(box.calls);
    process.parts_ = std::move(box.parts);
    process.process_ = box;
    process.has_box_ = !box.dump;
    known_.emplace(KeyOf(box.boot_id, box.host, box.pid, box.start_time), processes_.size() - 1);
  }
}

Recording Recording::Of(std::vector<reader::BoxImage> boxes) {
  Recording recording;
  recording.run_.boxes = std::move(boxes);
  recording.AddBoxes();
  for (ProcessRecording& process : recording.processes_) process.Conclude();
  return recording;
}

Recording Recording::Open(const std::vector<std::string>& paths) {
  Recording recording;
  recording.run_ = ReadJob(paths, reader::Calls::kAll);
  recording.AddBoxes();
  std::error_code ignored;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path, ignored)) continue;
    recording.AddSegments(path);
    if (SegmentFiles(path).empty()) continue;
    // It need not hold boxes.
    std::erase_if(recording.run_.failures, [&](const reader::Failure& failure) { return failure.path == path; });
  }
  for (ProcessRecording& process : recording.processes_) {
    process.Conclude();
    if (process.has_box_ || process.segments_.empty()) continue;
    const ProcessRecording::Segment& last = process.segments_.back();
    if (auto image = last.file->Read(*last.place, /*with_calls=*/false); image.ok()) {
      process.process_ = *std::move(image);
      process.process_.calls = std::vector<reader::Call>();  // with their memory
      process.process_.parts = std::vector<reader::CallParts>();
      process.process_.operations = reader::Operations();
    } else if (last.place->index.header.calls == 0) {  // who reads its calls says it otherwise
      recording.run_.failures.push_back({last.file->path(), std::string(image.status().message())});
    }
  }
  return recording;
}

std::vector<reader::BoxImage> Recording::Images() const {
  std::vector<reader::BoxImage> images;
  for (const ProcessRecording& process : processes_) images.push_back(process.process_);
  return images;
}

absl::Time Recording::End() const {
  std::int64_t end = 0;
  for (const ProcessRecording& process : processes_) {
    const std::int64_t real = process.process_.realtime_minus_monotonic_ns;
    end = std::max(end, process.process_.heartbeat_ns + real);
    for (const reader::Call& call : process.ring_)
      end = std::max(end, std::max(call.entered_ns, call.returned_ns) + real);
    for (const ProcessRecording::Segment& segment : process.segments_)
      end = std::max(end, segment.place->index.header.last_ns);
  }
  return absl::FromUnixNanos(end);
}

}  // namespace ncclwatch::analyzer
