#include "analyzer/recording/collector.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "analyzer/console/print.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"
#include "watchdog/act/files.h"
#include "watchdog/descriptors/limited_write.h"

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kCallsOfSegment = 1u << 16, kFewestOfSegment = 256;
constexpr std::chrono::seconds kOldest(5);       // a segment is written then, however few calls there are
constexpr std::chrono::milliseconds kScan(100);  // how often new boxes and ended processes are looked for
// ... new boxes while a job begins: a rank may fill its ring within the time of a scan.
constexpr std::chrono::milliseconds kScanAtFirst(5);
constexpr std::chrono::seconds kFirst(10);
constexpr std::uint64_t kBytesOfCall = 12;      // about
constexpr std::uint64_t kSegmentsOfLimit = 16;  // with a limit of bytes

// Nothing that the process may still change is missing: a reader after this gets the same.
bool Settled(const reader::Call& call) {
  if (call.returned_ns == 0) return false;
  const bool timed = (call.flags & (format::kTimed | format::kCaptured)) == format::kTimed;
  if (timed && call.kernel.clock == format::KernelClock::kNone) return false;
  const bool over = (call.flags & (format::kRequest | format::kForgotten)) != format::kRequest;
  return over || call.completed_ns != 0;
}

std::string KeyOf(std::string_view host, std::uint32_t pid, std::uint64_t start_time) {
  return fmt::format("{}.{}.{}", host, pid, start_time);
}

}  // namespace

struct Collector::Followed {
  std::string path;
  std::unique_ptr<reader::MappedBox> box;
  reader::BoxImage identity;  // without calls, as of the beginning
  bool alive = true;
  std::uint64_t begin = 0;  // of the segment in the making
  std::uint64_t next = 0;   // slot
  std::vector<reader::Call> calls;
  std::vector<reader::CallParts> parts;
  std::int64_t noted_ns = INT64_MIN;  // up to this instant notes and events are in segments
  Clock::time_point oldest{};         // when the first of them was taken
};

Collector::Collector(std::string directory, CollectorRequest request)
    : directory_(std::move(directory)),
      request_(std::move(request)),
      calls_of_segment_(kCallsOfSegment),
      output_(request_) {
  // Small enough for several ones of each process to find room.
  const auto fit = [&](std::uint64_t bytes) {
    calls_of_segment_ =
        std::clamp<std::uint64_t>(bytes / (kSegmentsOfLimit * kBytesOfCall), kFewestOfSegment, calls_of_segment_);
  };
  if (request_.most_bytes != 0) fit(request_.most_bytes);
  fit(static_cast<std::uint64_t>(descriptors::FileSizeLimit()));
  // A collector that was killed has left segments, and perhaps half of one, which is nobody's any more.
  for (const std::string& path : SegmentFiles(request_.to)) {
    const auto file = SegmentFile::Open(path);
    if (!file.ok()) continue;
    if (!(*file)->damage().ok()) SegmentWriter::Mend(path);
    for (const SegmentFile::Place& place : (*file)->places()) {
      const format::SegmentHeader& header = place.index.header;
      std::uint64_t& next = resumed_[KeyOf(place.index.host, header.pid, header.start_time)];
      next = std::max(next, header.end_slot);
    }
  }
}

Collector::~Collector() = default;

bool Collector::any_alive() const {
  return std::any_of(followed_.begin(), followed_.end(), [](const auto& one) { return one.second->alive; });
}

void Collector::FindNew() {
  for (const std::string& path : BoxFiles(directory_)) {
    if (followed_.contains(path)) continue;
    auto opened = reader::MappedBox::Open(path);
    auto* box = std::get_if<std::unique_ptr<reader::MappedBox>>(&opened);
    if (!box) {  // perhaps it is just being made
      unreadable_[path] = std::get<reader::Failure>(opened).reason;
      continue;
    }
    unreadable_.erase(path);
    auto one = std::make_unique<Followed>();
    one->path = path;
    one->box = std::move(*box);
    one->identity = one->box->Image(0);
    Resume(one.get());
    followed_.emplace(path, std::move(one));
  }
}

void Collector::Resume(Followed* one) const {
  const reader::BoxImage& image = one->identity;
  const auto found = resumed_.find(KeyOf(image.host, image.pid, image.start_time));
  if (found != resumed_.end()) one->begin = one->next = found->second;
}

bool Collector::Look() {
  const Clock::time_point now = Clock::now();
  const bool scans = now >= next_scan_;
  if (scans) next_scan_ = now + kScan;
  if (scans || now >= next_find_) {
    FindNew();
    next_find_ = now + (now - began_ < kFirst ? kScanAtFirst : kScan);
  }
  bool hurry = false;
  for (const auto& [path, one] : followed_) {
    if (!one->alive) continue;
    // Before the calls are taken: what it has done by its end is then all there.
    if (scans && !Alive(one->identity)) one->alive = false;
    hurry = Take(one.get(), !one->alive) || hurry;
    if (!one->alive || (!one->calls.empty() && now - one->oldest >= kOldest)) Write(one.get());
  }
  return hurry;
}

// True: an eighth of the ring has filled since the last time.
bool Collector::Take(Followed* one, bool all) {
  if (!one->box->StillWhole()) {
    one->alive = false;
    return false;
  }
  if (!all && output_.full()) return false;
  const std::uint64_t head = one->box->head(), ring = one->box->ring_size();
  if (head > ring && one->next < head - ring) one->next = head - ring;  // the gap tells what is lost
  const bool hurry = head - std::min(head, one->next) > ring / 8;
  while (one->next < head) {
    reader::Call call;
    const bool whole = one->box->Read(one->next, &call);
    // One that is being written, or still changes, is waited for until its place is needed.
    const bool waits = head - one->next < ring / 2 && !all;
    if ((!whole || !Settled(call)) && waits) break;
    ++one->next;
    if (!whole) continue;
    if (one->calls.empty()) one->oldest = Clock::now();
    one->calls.push_back(call);
    if ((call.flags & format::kHasParts) != 0) {
      reader::CallParts parts;
      if (one->box->ReadParts(call, &parts)) one->parts.push_back(std::move(parts));
    }
    if (one->calls.size() >= calls_of_segment_) Write(one);
  }
  return hurry;
}

void Collector::Write(Followed* one, bool last) {
  if (one->next == one->begin && !last) return;
  SegmentOutput::Segment segment{one->box->Image(0), one->begin, one->next, last};
  reader::BoxImage& image = segment.image;
  image.calls = std::move(one->calls);
  image.parts = std::move(one->parts);
  std::erase_if(image.notes, [&](const reader::Note& note) { return note.at_ns <= one->noted_ns; });
  std::erase_if(image.events, [&](const reader::Event& event) { return event.at_ns <= one->noted_ns; });
  for (const reader::Note& note : image.notes) one->noted_ns = std::max(one->noted_ns, note.at_ns);
  for (const reader::Event& event : image.events) one->noted_ns = std::max(one->noted_ns, event.at_ns);
  if (!last) {
    image.peers.clear();
    image.observations.clear();
  }
  one->calls.clear();
  one->parts.clear();
  one->begin = one->next;
  output_.Add(std::move(segment));
}

void Collector::CopyBox(const Followed& one) const {
  const std::string name = fs::path(one.path).filename().string();
  const auto to = descriptors::Directory::Named(request_.to);
  if (act::CopyFile(descriptors::Directory::Named(directory_), to, name).empty()) return;
  // A healthy job has removed it; its memory is still mapped.
  const format::Header& header = one.box->header();
  const std::string error = act::WriteFile(to, name, {reinterpret_cast<const char*>(&header), header.file_bytes});
  if (!error.empty()) Complain("collect", "{}", error);
}

void Collector::Finish() {
  FindNew();
  for (const auto& [path, why] : unreadable_) Complain("collect", "{}: {}", path, why);
  for (const auto& [path, one] : followed_) {
    Take(one.get(), true);
    // Also without a call: what the process said of its end, and its last notes.
    Write(one.get(), /*last=*/true);
    if (fs::path(request_.to) != fs::path(directory_) && one->box->StillWhole()) CopyBox(*one);
  }
  output_.Finish();
}

}  // namespace ncclwatch::analyzer
