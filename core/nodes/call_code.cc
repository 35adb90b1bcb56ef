#include "core/nodes/call_code.h"

#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::nodes {
namespace {

using reader::Call;

enum CallBits : std::uint8_t {  // set: as the call before on the communicator lets expect
  kNextSlot = 1,                // of the ring, whatever communicator the last one was on
  kSameCommunicator = 2,        // likewise
  kSameShape = 4,
  kNextPosition = 8,
  kChained = 16,
  kSamePlace = 32,  // stream, site, thread
  kSucceeded = 64,  // returned, with ncclSuccess
  kSameRest = 128,  // flags, next ticket, next start number, no group
};

std::uint64_t ChainAfter(const Call& before, const Call& call) {
  return format::Chain(before.chain, reader::FingerprintOf(call));
}

bool SameShape(const Call& a, const Call& b) {
  return a.function == b.function && a.count == b.count && a.dtype == b.dtype && a.reduction == b.reduction &&
         a.root == b.root && a.signature == b.signature;
}

std::uint64_t TicketAfter(const Call& last, std::uint32_t flags) {
  if ((flags & format::kMarked) == 0) return 0;
  return (last.flags & format::kMarked) != 0 ? last.ticket + 1 : 0;
}

// The next number on the same stream.
std::uint64_t StartAfter(const Call& last, std::uint32_t flags) {
  if ((flags & format::kStartMarked) == 0) return 0;
  return (last.flags & format::kStartMarked) != 0 ? last.start + format::kStarts : 0;
}

void WriteShape(const Call& call, Writer* to) {
  to->Number(static_cast<std::uint64_t>(call.function)).Number(call.count).Byte(call.dtype).Byte(call.reduction);
  to->Signed(call.root);
  if (functions::IsMpi(call.function)) to->Number(call.signature);
}

void ReadShape(Reader* from, Call* call) {
  call->function = static_cast<functions::Function>(from->NumberAs<std::uint32_t>());
  call->count = from->Number();
  call->dtype = from->Byte();
  call->reduction = from->Byte();
  call->root = from->Signed32();
  call->signature = functions::IsMpi(call->function) ? from->NumberAs<std::uint32_t>() : 0;
}

enum MpiBits : std::uint8_t {  // what a call of MPI says besides; not set: nothing
  kTag = 1,
  kBytes = 2,
  kWaiter = 4,
  kCompleted = 8,
  kParts = 16,
  kAwaited = 32,
  kPolled = 64,
  kAnyDoes = 128,
};

void WriteMpi(const Call& call, Writer* to) {
  unsigned bits = 0;
  if (call.tag != format::kNoTag) bits |= kTag;
  if (call.bytes != 0) bits |= kBytes;
  if (call.waiter != 0) bits |= kWaiter;
  if (call.completed_ns != 0) bits |= kCompleted;
  if (call.parts != 0) bits |= kParts;
  if (call.awaited) bits |= kAwaited;
  if (call.polled) bits |= kPolled;
  if (call.wait_any) bits |= kAnyDoes;
  to->Byte(static_cast<std::uint8_t>(bits));
  if ((bits & kTag) != 0) to->Signed(call.tag);
  if ((bits & kBytes) != 0) to->Number(call.bytes);
  if ((bits & kWaiter) != 0) to->Number(call.waiter);
  if ((bits & kCompleted) != 0) to->Signed(call.completed_ns);
  if ((bits & kParts) != 0) to->Number(call.parts);
}

void ReadMpi(Reader* from, Call* call) {
  const std::uint8_t bits = functions::IsMpi(call->function) ? from->Byte() : std::uint8_t{0};
  call->tag = (bits & kTag) != 0 ? from->Signed32() : format::kNoTag;
  call->bytes = (bits & kBytes) != 0 ? from->Number() : 0;
  call->waiter = (bits & kWaiter) != 0 ? from->Number() : 0;
  call->completed_ns = (bits & kCompleted) != 0 ? Later(from->Signed(), 0) : 0;
  call->parts = (bits & kParts) != 0 ? from->Number() : 0;
  call->awaited = (bits & kAwaited) != 0;
  call->polled = (bits & kPolled) != 0;
  call->wait_any = (bits & kAnyDoes) != 0;
}

// `call` is the one before on the communicator as yet.
void ReadRest(std::uint8_t bits, Reader* from, Call* call) {
  if ((bits & kSameRest) != 0) {
    call->ticket = TicketAfter(*call, call->flags);
    call->start = StartAfter(*call, call->flags);
    call->group = 0;
    return;
  }
  call->flags = from->NumberAs<std::uint32_t>();
  call->group = from->Number();
  call->ticket = from->Number();
  call->start = (call->flags & format::kStartMarked) != 0 ? from->Number() : 0;
}

// 0: has not returned; odd: twice the time inside, plus 1; even: clocks that went backwards.
std::uint64_t Inside(const Call& call) {
  if (call.returned_ns == 0) return 0;
  const std::int64_t length = Later(call.returned_ns, -Later(call.entered_ns, 0));
  return length >= 0 ? 2 * static_cast<std::uint64_t>(length) + 1 : 2 * static_cast<std::uint64_t>(-length);
}

// Wraps round, as the sum on the other side does.
std::int64_t Since(std::int64_t later, std::int64_t before) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(before));
}

}  // namespace

std::uint8_t CallMemory::BitsOf(const Call& call, const Call& last) const {
  unsigned bits = 0;
  if (call.slot == (any_ ? before_.slot + 1 : 0)) bits |= kNextSlot;
  if (any_ && call.communicator == before_.communicator && call.generation == before_.generation)
    bits |= kSameCommunicator;
  if (SameShape(call, last)) bits |= kSameShape;
  if (call.position == last.position + 1) bits |= kNextPosition;
  if (call.chain == ChainAfter(last, call)) bits |= kChained;
  if (call.stream == last.stream && call.site == last.site && call.thread == last.thread) bits |= kSamePlace;
  if (call.returned_ns != 0 && call.result == 0) bits |= kSucceeded;
  if (call.flags == last.flags && call.group == 0 && call.ticket == TicketAfter(last, call.flags) &&
      call.start == StartAfter(last, call.flags))
    bits |= kSameRest;
  return static_cast<std::uint8_t>(bits);
}

void CallMemory::Begin(const Call& before) {
  before_ = {before.slot, before.entered_ns, before.communicator, before.generation};
  any_ = true;
}

void CallMemory::Write(const Call& call, Writer* to) {
  Call& last = On(call.communicator, call.generation);
  const std::uint8_t bits = BitsOf(call, last);
  to->Byte(bits);
  if ((bits & kNextSlot) == 0) to->Number(call.slot - before_.slot);
  if ((bits & kSameCommunicator) == 0) to->Number(call.communicator + 1u).Number(call.generation);
  if ((bits & kSameShape) == 0) WriteShape(call, to);
  if ((bits & kNextPosition) == 0) to->Number(call.position);
  if ((bits & kChained) == 0) to->Whole(call.chain);
  if ((bits & kSamePlace) == 0) to->Number(call.stream).Number(call.site).Number(call.thread);
  to->Signed(Since(call.entered_ns, before_.entered_ns));
  to->Number(Inside(call));
  if ((bits & kSucceeded) == 0) to->Signed(call.result);
  if ((bits & kSameRest) == 0) {
    to->Number(call.flags).Number(call.group).Number(call.ticket);
    if ((call.flags & format::kStartMarked) != 0) to->Number(call.start);
  }
  if ((call.flags & format::kTimed) != 0) to->Number(format::Pack(call.kernel));
  if (functions::IsMpi(call.function)) WriteMpi(call, to);
  Begin(call);
  last = call;
}

// In the place of the last call on its communicator, which tells most of it.
const Call& CallMemory::Read(Reader* from) {
  const std::uint8_t bits = from->Byte();
  const std::uint64_t slot = (bits & kNextSlot) == 0 ? before_.slot + from->Number() : any_ ? before_.slot + 1 : 0;
  std::uint32_t communicator = before_.communicator, generation = before_.generation;
  if ((bits & kSameCommunicator) == 0) {
    communicator = static_cast<std::uint32_t>(from->NumberUpTo(UINT32_MAX) - 1);
    generation = from->NumberAs<std::uint32_t>();
  }
  Call& call = On(communicator, generation);
  call.slot = slot;
  if ((bits & kSameShape) == 0) ReadShape(from, &call);
  call.position = (bits & kNextPosition) == 0 ? from->Number() : call.position + 1;
  call.chain = (bits & kChained) == 0 ? from->Whole() : ChainAfter(call, call);
  if ((bits & kSamePlace) == 0) {
    call.stream = from->Number();
    call.site = from->Number();
    call.thread = from->NumberAs<std::uint32_t>();
  }
  call.entered_ns = Later(before_.entered_ns, from->Signed());
  const std::uint64_t inside = from->Number();
  const auto length = static_cast<std::int64_t>(inside / 2);
  call.returned_ns = inside == 0 ? 0 : Later(call.entered_ns, inside % 2 == 1 ? length : -length);
  call.result = (bits & kSucceeded) == 0 ? from->Signed32() : 0;
  ReadRest(bits, from, &call);
  call.kernel = (call.flags & format::kTimed) != 0 ? format::UnpackKernelTime(from->Number()) : format::KernelTime{};
  ReadMpi(from, &call);
  Begin(call);
  return call;
}

void WriteCall(const Call& call, std::int64_t base_ns, Writer* to) {
  CallMemory memory;
  Call base;
  base.entered_ns = base_ns;
  base.slot = call.slot - 1;
  memory.Begin(base);
  to->Number(call.slot);
  memory.Write(call, to);
}

Call ReadCall(std::int64_t base_ns, Reader* from) {
  CallMemory memory;
  Call base;
  base.entered_ns = base_ns;
  base.slot = from->Number() - 1;
  memory.Begin(base);
  return memory.Read(from);
}

}  // namespace ncclwatch::nodes
