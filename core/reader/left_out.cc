#include "core/reader/left_out.h"

#include <algorithm>
#include <iterator>
#include <memory>

#include "core/reader/box.h"
#include "core/reader/file.h"
#include "core/reader/scratch.h"

namespace ncclwatch::reader {
namespace {

bool SameProcess(const BoxImage& a, const BoxImage& b) {
  return a.pid == b.pid && a.start_time == b.start_time && a.boot_id == b.boot_id;
}

// Single records of a file, copied as they are asked for.
class Ring {
 public:
  explicit Ring(const BoxImage& image) : file_(image.path) {
    alignas(format::Header) char head[sizeof(format::Header)];
    const std::size_t got = file_.ReadAt(0, head, sizeof(head));
    if (!file_.reason().empty() || !CheckHeader(head, got, file_.bytes()).empty()) return;
    const auto& header = *reinterpret_cast<const format::Header*>(head);
    if (header.identity.pid != image.pid || header.identity.start_time != image.start_time) return;
    Layout layout;
    if (!CheckSections(head, header.file_bytes, &layout).empty()) return;
    thread_local Scratch scratch;  // only the pages looked at become memory
    memory_ = static_cast<char*>(scratch.Of(header.file_bytes));
    if (memory_ == nullptr) return;
    std::copy(std::begin(head), std::end(head), memory_);
    box_ = MappedBox::Borrow(reinterpret_cast<const format::Header*>(memory_), image.path);
  }

  static constexpr std::uint64_t kAtOnce = 32;

  bool there() const { return box_ != nullptr; }

  // The first slot in [from, end) that holds a collective of the communicator which has consumed a position.
  std::optional<Call> Next(std::uint64_t from, std::uint64_t end, const Communicator& comm) {
    Call call;
    for (std::uint64_t slot = from; slot < end; ++slot) {
      Copy(slot, end);
      if (!box_->Read(slot, &call)) continue;
      if (call.communicator != comm.index || call.generation != comm.generation) continue;
      if (!functions::IsCollective(call.function) || (call.flags & format::kEmpty) != 0 ||
          !Taken(call.function, call.result))
        continue;
      return call;
    }
    return std::nullopt;
  }

 private:
  // The record of the slot, and a few after it.
  void Copy(std::uint64_t slot, std::uint64_t end) {
    if (slot >= copied_from_ && slot < copied_to_) return;
    const std::uint64_t to_wrap = box_->ring_size() - (slot & (box_->ring_size() - 1));
    const std::uint64_t count = std::min({kAtOnce, end - slot, to_wrap});
    char* const to = const_cast<char*>(reinterpret_cast<const char*>(&box_->record(slot)));
    const std::size_t got = file_.ReadAt(static_cast<std::uint64_t>(to - memory_), to, count * sizeof(format::Record));
    if (got < count * sizeof(format::Record)) std::fill(to + got, to + count * sizeof(format::Record), '\0');
    copied_from_ = slot;
    copied_to_ = slot + count;
  }

  File file_;
  char* memory_ = nullptr;
  std::unique_ptr<MappedBox> box_;
  std::uint64_t copied_from_ = 0, copied_to_ = 0;
};

}  // namespace

std::vector<Call> ReadLeftOut(const BoxImage& image) {
  std::vector<Call> missing;
  if (image.left_out == 0) return missing;
  auto whole = ReadBox(image.path);
  const auto* now = std::get_if<BoxImage>(&whole);
  if (now == nullptr || !SameProcess(*now, image)) return missing;
  auto kept = image.calls.begin();
  for (const Call& call : now->calls) {
    if (call.slot >= image.left_out_before) break;
    while (kept != image.calls.end() && kept->slot < call.slot) ++kept;
    if (kept == image.calls.end() || kept->slot != call.slot) missing.push_back(call);
  }
  return missing;
}

void PutBack(BoxImage* image) {
  if (image->left_out == 0) return;
  std::vector<Call> missing = ReadLeftOut(*image);
  const bool lost = missing.size() < image->left_out;
  std::vector<Call> all;
  all.reserve(missing.size() + image->calls.size());
  std::merge(missing.begin(), missing.end(), image->calls.begin(), image->calls.end(), std::back_inserter(all),
             [](const Call& a, const Call& b) { return a.slot < b.slot; });
  image->calls = std::move(all);
  // The oldest go first. Should some of them have gone, nothing is whole.
  if (lost) image->first_slot = std::max<std::uint64_t>(image->calls.empty() ? 1 : image->calls.front().slot, 1);
  image->left_out = 0;
  image->left_out_until_ns = 0;
  image->sizes_until = UINT64_MAX;
  for (Communicator& comm : image->communicators) comm.left_out = {};
}

std::optional<Call> ReadCollective(const BoxImage& image, const Communicator& communicator, std::uint64_t position) {
  if (image.left_out == 0 || !communicator.left_out.Has(position)) return std::nullopt;
  Ring ring(image);
  if (!ring.there()) return std::nullopt;
  // Positions grow with slots, and nearly evenly: most are met at the second look.
  constexpr int kGuesses = 4;
  std::uint64_t low = image.first_slot, high = image.left_out_before;
  std::uint64_t low_position = communicator.left_out.first, high_position = communicator.left_out.end;
  for (int look = 0; low < high; ++look) {
    std::uint64_t at = low + (high - low) / 2;
    if (look < kGuesses && low_position <= position && position < high_position) {
      const double share =
          static_cast<double>(position - low_position) / static_cast<double>(high_position - low_position);
      const auto guess = static_cast<std::uint64_t>(share * static_cast<double>(high - low));
      at = low + std::min(guess - std::min<std::uint64_t>(guess, look == 0 ? Ring::kAtOnce / 2 : 0), high - low - 1);
    }
    const std::optional<Call> call = ring.Next(at, high, communicator);
    if (!call || call->position > position) {
      high = at;
      if (call) high_position = call->position;
    } else if (call->position < position) {
      low = call->slot + 1;
      low_position = call->position + 1;
    } else {
      return call;
    }
  }
  return std::nullopt;
}

}  // namespace ncclwatch::reader
