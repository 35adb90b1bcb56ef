#include "core/reader/sift.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/reader/load.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::reader {
namespace {

using functions::Family;
using functions::Function;

enum class Sort : std::uint8_t { kRare, kCollective, kMessage, kGroupStart, kGroupEnd, kOneSided, kOther };

constexpr Sort SortOf(const functions::FunctionInfo& info) {
  switch (info.family) {
    case Family::kCollective:
    case Family::kRooted: return Sort::kCollective;
    case Family::kPointToPoint: return Sort::kMessage;
    case Family::kGroup: return info.function == Function::ncclGroupStart ? Sort::kGroupStart : Sort::kGroupEnd;
    case Family::kOneSided:
    case Family::kQuery: return Sort::kOther;
    default: return Sort::kRare;
  }
}

constexpr std::size_t kNumbers = functions::kRowOf.size();
constexpr std::array<Sort, kNumbers> kSorts = [] {
  std::array<Sort, kNumbers> sorts{};
  sorts.fill(Sort::kOther);
  for (const functions::FunctionInfo& info : functions::kFunctions)
    sorts.at(static_cast<std::uint32_t>(info.function)) = SortOf(info);
  return sorts;
}();

class Sieve {
 public:
  Sieve(const MappedBox& box, std::uint64_t newest, BoxImage* image) : box_(box), image_(image) {
    image->first_slot = image->head - std::min(image->head, box.ring_size());
    newest_from_ = image->head - std::min(image->head - image->first_slot, newest);
    image->left_out_before = newest_from_;
    std::uint32_t size = 0;
    for (const Communicator& comm : image->communicators) size = std::max(size, comm.index + 1);
    by_index_.resize(size);
    for (Communicator& comm : image->communicators) by_index_[comm.index] = {&comm, MarksBeforeAbort(comm), {}, 0};
  }

  void Run() {
    image_->calls.reserve(image_->head - newest_from_);
    for (std::uint64_t slot = image_->first_slot; slot < newest_from_; ++slot) Older(slot);
    KeepOpenGroups();
    for (std::uint64_t slot = newest_from_; slot < image_->head; ++slot) {
      if (!Keep(slot)) ++image_->torn;
    }
    if (left_out_until_ != 0) image_->left_out_until_ns = box_.ToNanoseconds(left_out_until_);
  }

 private:
  using Marks = std::array<std::uint64_t, format::kMarks>;
  struct Series {  // of messages, with one peer in one direction
    std::uint64_t key = 0;
    std::uint64_t bytes = 0;
  };
  struct Known {
    Communicator* comm = nullptr;
    Marks marks{};
    std::vector<Series> series;
    std::size_t last = 0;  // they repeat in the same order: the next one follows
  };

  // An abort lets everything end. As of an instant before it (RollBack), what it ended had not.
  static Marks MarksBeforeAbort(const Communicator& comm) {
    Marks marks = comm.marks;
    if (comm.aborted_ns == 0) return marks;
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const std::uint64_t behind = std::min<std::uint64_t>(comm.unfinished[i], comm.aborted_tickets);
      marks[i] = std::min(marks[i], comm.aborted_tickets - behind);
    }
    return marks;
  }

  bool Keep(std::uint64_t slot) {
    Call call;
    if (!box_.Read(slot, &call)) return false;
    AddCall(box_, call, image_);
    return true;
  }

  void Older(std::uint64_t slot) {
    const format::Record& record = box_.record(slot);
    if (record.commit.load(std::memory_order_acquire) != slot + 1) {
      ++image_->torn;
      return;
    }
    const std::uint32_t function = Load(record.function);
    const Sort sort = function < kNumbers ? kSorts[function] : Sort::kOther;
    const std::uint64_t returned = record.returned.load(std::memory_order_acquire);
    const std::uint32_t flags = Load(record.flags);
    // The first that bears it says so.
    constexpr std::uint32_t kNoted = format::kCaptured | format::kNonBlocking | format::kMarkUnavailable;
    const bool noted = (flags & kNoted & ~seen_flags_) != 0 || (sort == Sort::kOneSided && !seen_one_sided_);
    seen_flags_ |= flags;
    seen_one_sided_ = seen_one_sided_ || sort == Sort::kOneSided;
    Known* known = KnownOf(record);
    const bool finished = known != nullptr && Finished(*known, flags, Load(record.ticket));
    const bool other_size = sort == Sort::kMessage && known != nullptr && OtherSize(record, known);
    const bool on_gpu = known != nullptr && (flags & format::kMarked) != 0 && !finished;
    const bool taken = Taken(static_cast<Function>(function), record.result.load(std::memory_order_acquire));
    const bool over = returned != 0 && taken && !on_gpu && !OpenRequest(record, function, flags);
    if (!over || sort == Sort::kRare || other_size || noted || (flags & format::kEmpty) != 0) {
      if (!Keep(slot)) ++image_->torn;
      return;
    }
    ++image_->left_out;
    left_out_until_ = std::max({left_out_until_, returned, record.entered.load(std::memory_order_acquire)});
    if (sort == Sort::kGroupStart || sort == Sort::kGroupEnd) NoteGroup(slot, Load(record.group), sort);
    if (sort == Sort::kCollective && known != nullptr) NoteCollective(Load(record.position), finished, known->comm);
  }

  Known* KnownOf(const format::Record& record) {
    const std::uint32_t index = Load(record.communicator);
    if (index >= by_index_.size()) return nullptr;
    Known& known = by_index_[index];
    return known.comm != nullptr && known.comm->generation == Load(record.generation) ? &known : nullptr;
  }

  bool OtherSize(const format::Record& record, Known* known) {
    if (image_->sizes_until != UINT64_MAX) return false;
    const std::uint64_t key =
        std::uint64_t{Load(record.function)} << 32 | static_cast<std::uint32_t>(Load(record.root));
    const std::uint64_t bytes = Load(record.count) * functions::DatatypeBytes(Load(record.dtype));
    std::vector<Series>& series = known->series;
    std::size_t tried = 0;
    while (tried < series.size() && series[(known->last + tried) % series.size()].key != key) ++tried;
    if (tried == series.size()) {
      known->last = 0;
      series.push_back({key, bytes});
    } else {
      const std::size_t at = (known->last + tried) % series.size();
      known->last = at + 1;
      if (series[at].bytes == bytes) return false;
      series[at].bytes = bytes;
    }
    if (++sizes_kept_ > kMostSizes) image_->sizes_until = record.commit.load(std::memory_order_relaxed) - 1;
    return sizes_kept_ <= kMostSizes;
  }

  static bool OpenRequest(const format::Record& record, std::uint32_t function, std::uint32_t flags) {
    return functions::IsMpi(static_cast<Function>(function)) && (flags & format::kRequest) != 0 &&
           Load(reinterpret_cast<const format::MpiRecord&>(record).completed) == 0;
  }

  static bool Finished(const Known& known, std::uint32_t flags, std::uint64_t ticket) {
    return (flags & format::kMarked) != 0 && known.marks[ticket % format::kMarks] > ticket;
  }

  static void NoteCollective(std::uint64_t position, bool finished, Communicator* comm) {
    if (position >= comm->entered) return;  // given back, or damage
    LeftOut& left_out = comm->left_out;
    left_out.first = std::min(left_out.first, position);
    left_out.end = std::max(left_out.end, position + 1);
    if (finished) left_out.finished = std::max(left_out.finished, position + 1);
  }

  // Starts and ends of a group that is still open are kept: how deep it is follows from them.
  void NoteGroup(std::uint64_t slot, std::uint64_t group, Sort sort) {
    if (group == 0) return;
    Group& open = groups_[group];
    open.depth += sort == Sort::kGroupStart ? 1 : -1;
    open.slots.push_back(slot);
    if (open.depth <= 0) groups_.erase(group);
  }

  void KeepOpenGroups() {
    for (const auto& [group, open] : groups_)
      for (const std::uint64_t slot : open.slots)
        if (Keep(slot)) --image_->left_out;
    std::sort(image_->calls.begin(), image_->calls.end(), [](const Call& a, const Call& b) { return a.slot < b.slot; });
  }

  struct Group {
    int depth = 0;
    std::vector<std::uint64_t> slots;
  };

  const MappedBox& box_;
  BoxImage* image_;
  std::uint64_t newest_from_ = 0;
  std::vector<Known> by_index_;
  std::unordered_map<std::uint64_t, Group> groups_;
  std::uint64_t left_out_until_ = 0;  // ticks
  std::uint32_t seen_flags_ = 0;
  bool seen_one_sided_ = false;
  std::uint64_t sizes_kept_ = 0;
};

}  // namespace

void Prefilter(const MappedBox& box, std::uint64_t newest, BoxImage* image) { Sieve(box, newest, image).Run(); }

}  // namespace ncclwatch::reader
