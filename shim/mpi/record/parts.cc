#include "shim/mpi/record/parts.h"

#include <sys/mman.h>

#include "ncclwatch/functions/types.h"
#include "shim/base/put.h"
#include "shim/mpi/core/handle_map.h"

namespace ncclwatch::shim::mpi {
namespace {

constinit HandleMap<SavedParts> saved_parts;

std::uint64_t BytesOf(const SavedParts& saved) { return (1 + saved.sends + saved.receives) * sizeof(format::Part); }

format::Part& At(Box& box, std::uint64_t number) { return box.parts[number % format::kPartCapacity]; }

format::PartsHead& HeadAt(Box& box, std::uint64_t number) {
  return reinterpret_cast<format::PartsHead&>(At(box, number));
}

}  // namespace

void Discard(const SavedParts& saved) {
  if (saved.parts) munmap(saved.parts, BytesOf(saved));
}

void SaveParts(std::uint64_t request, const SavedParts& saved) {
  DropSavedParts(request);
  if (saved.parts && !saved_parts.Put(request, saved)) Discard(saved);
}

void TellSavedParts(Call& call, std::uint64_t request) {
  SavedParts saved;
  if (!saved_parts.Find(request, &saved)) return;
  Parts parts(call, saved.sends, saved.receives);
  for (std::uint32_t i = 0; i < saved.sends + saved.receives; ++i) parts.Add(saved.parts[i]);
  parts.Done();
}

void DropSavedParts(std::uint64_t request) {
  SavedParts saved;
  if (saved_parts.Find(request, &saved) && saved_parts.Remove(request, [](const SavedParts&) { return true; }))
    Discard(saved);
}

Parts::Parts(Call& call, std::uint32_t sends, std::uint32_t receives) : call_(call) {
  Box& box = call.box;
  if (!box.Watching() && !call.saving) return;
  if (sends > format::kMostParts || receives > format::kMostParts || sends + receives > format::kMostParts) {
    call.flags |= format::kTooManyParts;
    return;
  }
  if (SavedParts* saving = call.saving) {
    saving->sends = sends;
    saving->receives = receives;
    void* memory = mmap(nullptr, BytesOf(*saving), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    saving->parts = static_cast<format::Part*>(memory);
    kept_ = true;
    return;
  }
  kept_ = true;
  first_ = box.parts_taken.fetch_add(1 + sends + receives, std::memory_order_relaxed);
  next_ = first_ + 1;
  format::PartsHead& head = HeadAt(box, first_);
  head.commit.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  Put(head.sends, sends);
  Put(head.receives, receives);
  sum_ = format::PartsSum(static_cast<std::uint16_t>(sends), static_cast<std::uint16_t>(receives));
}

void Parts::Add(const format::Part& part) {
  if (!kept_) return;
  if (call_.saving) {
    call_.saving->parts[next_++] = part;
    return;
  }
  format::Part& to = At(call_.box, next_++);
  Put(to.what, part.what);
  Put(to.dtype, part.dtype);
  Put(to.element, part.element);
  Put(to.bytes, part.bytes);
  sum_ = format::PartsSum(sum_, part);
}

void Parts::Done() {
  if (!kept_ || call_.saving) return;
  format::PartsHead& head = HeadAt(call_.box, first_);
  Put(head.sum, sum_);
  head.commit.store(first_ + 1, std::memory_order_release);
  call_.flags |= format::kHasParts;
  call_.tag = static_cast<std::int32_t>(first_);
  call_.parts_high = static_cast<std::uint16_t>(first_ >> 32);
}

format::Part Amounts::Of(std::int64_t count, MPI_Datatype type) {
  if (count == 0) return {kEmptySignature, format::kNoType, 0, 0};  // of which type is all the same
  if (count < 0) return {0, format::kNoType, 0, 0};
  if (!any_ || Bits(type) != type_bits_) {
    type_bits_ = Bits(type);
    known_ = FindDatatype(type, &type_);
    any_ = true;
    count_ = -1;
  }
  if (!known_) return {0, format::kNoType, 0, 0};
  if (count != count_) {
    const auto times = static_cast<std::uint64_t>(count);
    const bool of_one_type = type_.basic != 0 && type_.basic != functions::kDerivedType && type_.elements != 0;
    part_ = {.what = SignatureOf(type_, times),
             .dtype = of_one_type ? type_.basic : functions::kDerivedType,
             .element = static_cast<std::uint16_t>(of_one_type ? type_.bytes / type_.elements : 0),
             .bytes = type_.bytes * times};
    count_ = count;
  }
  return part_;
}

}  // namespace ncclwatch::shim::mpi
