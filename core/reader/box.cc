#include "core/reader/box.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "core/reader/file.h"
#include "core/reader/guard.h"
#include "core/reader/load.h"
#include "ncclwatch/format/sample.h"

namespace ncclwatch::reader {
namespace {

std::int64_t Clamp(double value) {
  constexpr double kLimit = 9.2e18;
  if (!(value > -kLimit)) return static_cast<std::int64_t>(-kLimit);
  return static_cast<std::int64_t>(std::min(value, kLimit));
}

// Adding as integers keeps nanoseconds that a double of this size has lost; clamped apart, so nothing overflows.
std::int64_t By(const format::ClockAnchor& anchor, std::uint64_t ticks) {
  constexpr std::int64_t kHalf = INT64_MAX / 2;
  const double since = static_cast<double>(static_cast<std::int64_t>(ticks - Load(anchor.ticks)));
  return std::clamp(Load(anchor.monotonic_ns), -kHalf, kHalf) +
         std::clamp(Clamp(since * Load(anchor.ns_per_tick)), -kHalf, kHalf);
}

std::variant<std::unique_ptr<MappedBox>, Failure> Fail(const std::string& path, std::string reason) {
  return Failure{path, std::move(reason)};
}

}  // namespace

std::variant<std::unique_ptr<MappedBox>, Failure> MappedBox::Open(const std::string& path) {
  return Map(File(path), path);
}

std::variant<std::unique_ptr<MappedBox>, Failure> MappedBox::Open(const descriptors::Directory& directory,
                                                                  const std::string& name) {
  auto opened = Map(File(directory, name), directory.PathOf(name));
  if (auto* box = std::get_if<std::unique_ptr<MappedBox>>(&opened)) (*box)->directory_ = directory;
  return opened;
}

std::variant<std::unique_ptr<MappedBox>, Failure> MappedBox::Map(const File& file, const std::string& path) {
  if (!file.reason().empty()) return Fail(path, file.reason());
  alignas(format::Header) char head[sizeof(format::Header)];
  const std::size_t got = file.ReadAt(0, head, sizeof(head));
  std::string reason = CheckHeader(head, got, file.bytes());
  if (!reason.empty()) return Fail(path, std::move(reason));
  // Only the announced part: what follows (another file glued on, a sparse tail) is nobody's business.
  const std::uint64_t bytes = reinterpret_cast<const format::Header*>(head)->file_bytes;
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (memory == MAP_FAILED) return Fail(path, std::string("cannot be mapped: ") + ::strerror(errno));
  std::unique_ptr<MappedBox> box(new MappedBox);
  box->path_ = path;
  box->header_ = static_cast<const format::Header*>(memory);
  box->bytes_ = bytes;
  box->owned_ = true;
  box->guard_ = guard::Enroll(memory, bytes, PROT_READ);
  box->inode_ = file.inode();
  reason = CheckSections(memory, bytes, &box->layout_);
  if (!reason.empty()) return Fail(path, std::move(reason));
  return box;
}

std::unique_ptr<MappedBox> MappedBox::Borrow(const format::Header* own, const std::string& path) {
  std::unique_ptr<MappedBox> box(new MappedBox);
  box->path_ = path;
  box->header_ = own;
  box->bytes_ = own->file_bytes;
  if (!CheckSections(own, own->file_bytes, &box->layout_).empty()) return nullptr;
  return box;
}

MappedBox::~MappedBox() {
  guard::Dismiss(guard_);
  if (owned_) ::munmap(const_cast<format::Header*>(header_), bytes_);
}

bool MappedBox::StillWhole() const {
  if (guard::Lost(guard_)) return false;
  struct stat status {};
  // A file without its name, or with another one's in its place, is out of reach of those who go by names.
  const bool there =
      directory_ ? directory_.Stat(path_.substr(path_.rfind('/') + 1), &status) : ::stat(path_.c_str(), &status) == 0;
  if (inode_ == 0 || !there || status.st_ino != inode_) return true;
  return static_cast<std::uint64_t>(status.st_size) >= bytes_;
}

std::uint32_t MappedBox::communicators() const {
  return std::min(header_->communicators_used.load(std::memory_order_acquire), layout_.communicator_count);
}

const format::Communicator& MappedBox::communicator(std::uint32_t index) const {
  return layout_.communicators[std::min(index, layout_.communicator_count - 1)];
}

std::uint64_t MappedBox::head() const { return header_->head.load(std::memory_order_acquire); }

std::uint64_t MappedBox::ring_size() const { return layout_.ring_count; }

std::uint64_t MappedBox::words_said() const {
  std::uint64_t said = header_->last_words.written.load(std::memory_order_acquire);
  if (layout_.words == nullptr) return said;
  const format::Words& words = *layout_.words;
  for (const auto* count : {&words.signals_seen, &words.exceptions_seen, &words.allocations_failed, &words.errors_seen})
    said += count->load(std::memory_order_acquire);
  for (const format::FatalSignal& signal : words.signals)
    if ((Load(signal.flags) & format::kSignalUnwound) != 0) ++said;  // its frames have been found since
  return said + misuses_said();
}

std::uint64_t MappedBox::misuses_said() const {
  return layout_.has_misuses ? layout_.words->misuses_seen.load(std::memory_order_acquire) : 0;
}

bool MappedBox::Read(std::uint64_t slot, Call* call) const {
  const format::Record& record = layout_.ring[slot & (layout_.ring_count - 1)];
  if (record.commit.load(std::memory_order_acquire) != slot + 1) return false;
  call->slot = slot;
  const std::uint64_t returned = record.returned.load(std::memory_order_acquire);
  call->result = record.result.load(std::memory_order_acquire);
  call->entered_ns = ToNanoseconds(record.entered.load(std::memory_order_acquire));
  call->returned_ns = returned == 0 ? 0 : std::max<std::int64_t>(1, ToNanoseconds(returned));
  call->position = Load(record.position);
  call->count = Load(record.count);
  call->chain = Load(record.chain);
  call->stream = Load(record.stream);
  call->site = Load(record.site);
  call->group = Load(record.group);
  call->function = static_cast<functions::Function>(Load(record.function));
  call->communicator = Load(record.communicator);
  call->generation = Load(record.generation);
  call->thread = Load(record.thread);
  call->flags = Load(record.flags);
  call->root = Load(record.root);
  call->dtype = Load(record.dtype);
  call->reduction = Load(record.reduction);
  if (returned == 0) call->result = format::kNoResult;
  call->awaited = call->polled = call->wait_any = false;
  if (functions::IsMpi(call->function)) {
    ReadOfMpi(reinterpret_cast<const format::MpiRecord&>(record), call);
  } else {
    call->ticket = Load(record.ticket);
    call->kernel = format::UnpackKernelTime(record.kernel.load(std::memory_order_relaxed));
    call->start = (call->flags & format::kStartMarked) != 0 ? Load(record.start) : 0;
    call->completed_ns = 0;
    call->waiter = call->bytes = call->signature = 0;
    call->tag = format::kNoTag;
    call->parts = 0;
  }
  return record.commit.load(std::memory_order_acquire) == slot + 1;
}

// What is in the places of NCCL's streams and marks.
void MappedBox::ReadOfMpi(const format::MpiRecord& record, Call* call) const {
  const std::uint64_t completed = record.completed.load(std::memory_order_acquire);
  call->completed_ns = completed == 0 ? 0 : std::max<std::int64_t>(1, ToNanoseconds(completed));
  // A receive's position comes last: with it, source and tag are the message's.
  call->position = record.position.load(std::memory_order_acquire);
  call->root = Load(record.root);
  call->tag = Load(record.tag);
  call->chain = Load(record.chain);
  call->signature = Load(record.signature);
  call->bytes = Load(record.bytes);
  call->waiter = Load(record.waiter);
  call->stream = call->ticket = call->start = 0;
  call->kernel = {};
  call->parts = 0;
  if ((call->flags & format::kHasParts) == 0) return;
  call->parts = std::uint64_t{Load(record.parts_high)} << 32 | static_cast<std::uint32_t>(call->tag);
  call->tag = format::kNoTag;
}

bool MappedBox::ReadParts(const Call& call, CallParts* parts) const {
  if (layout_.part_count == 0) return false;
  const auto at = [&](std::uint64_t number) -> const format::Part& {
    return layout_.parts[number % layout_.part_count];
  };
  const auto& head = reinterpret_cast<const format::PartsHead&>(at(call.parts));
  if (head.commit.load(std::memory_order_acquire) != call.parts + 1) return false;
  const std::uint16_t sends = Load(head.sends), receives = Load(head.receives);
  const std::uint32_t said = Load(head.sum);
  if (std::uint64_t{sends} + receives > std::min(format::kMostParts, layout_.part_count - 1)) return false;
  parts->call = call;
  parts->sends.clear();
  parts->receives.clear();
  std::uint64_t number = call.parts + 1;
  std::uint64_t sum = format::PartsSum(sends, receives);
  for (auto* of : {&parts->sends, &parts->receives}) {
    const std::uint16_t count = of == &parts->sends ? sends : receives;
    of->reserve(count);
    for (std::uint16_t i = 0; i < count; ++i) {
      const format::Part& from = at(number++);
      const format::Part part{Load(from.what), Load(from.dtype), Load(from.element), Load(from.bytes)};
      sum = format::PartsSum(sum, part);
      of->push_back(part);
    }
  }
  return head.commit.load(std::memory_order_acquire) == call.parts + 1 && static_cast<std::uint32_t>(sum) == said;
}

std::int64_t MappedBox::ToNanoseconds(std::uint64_t ticks) const {
  if (header_->clock.source != static_cast<std::uint32_t>(format::ClockSource::kCycleCounter)) {
    return static_cast<std::int64_t>(std::min<std::uint64_t>(ticks, INT64_MAX));
  }
  const std::uint32_t anchored = header_->clock.anchored.load(std::memory_order_acquire);
  const std::uint32_t kept = std::min(anchored, format::kClockAnchors - 1);
  std::int64_t not_after_ns = INT64_MAX;  // what the next anchor says: order is kept where one corrects another
  for (std::uint32_t i = 1; i <= kept; ++i) {
    const format::ClockAnchor& anchor = header_->clock.anchors[(anchored - i) % format::kClockAnchors];
    if (i == kept || Load(anchor.ticks) <= ticks) return std::min(By(anchor, ticks), not_after_ns);
    not_after_ns = Load(anchor.monotonic_ns);
  }
  return 0;  // no anchor: refused when the box was opened
}

}  // namespace ncclwatch::reader
