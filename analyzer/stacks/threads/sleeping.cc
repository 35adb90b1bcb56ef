#include <algorithm>
#include <cerrno>

#include "analyzer/stacks/threads/snapshot.h"
#include "analyzer/stacks/unwind/processor.h"

namespace ncclwatch::stacks {
namespace {

constexpr int kLooks = 3;

}  // namespace

void CopyStack(const Memory& memory, const Maps& maps, std::uint64_t stack_pointer, Snapshot* snapshot) {
  constexpr std::uint64_t kUnmapped = 64 << 10;  // a stack made after the map was read: what can be read of so much
  const Mapping* const mapping = maps.At(stack_pointer);
  const std::uint64_t room = mapping ? mapping->end - stack_pointer : kUnmapped;
  snapshot->stack_begin = stack_pointer;
  snapshot->stack.resize(std::min<std::uint64_t>(room, kMostStackBytes));
  snapshot->stack.resize(memory.ReadNow(stack_pointer, snapshot->stack.data(), snapshot->stack.size()));
}

Sleeping ReadSleeping(const ProcThread& thread, const Memory& memory, const Maps& maps) {
  Sleeping sleeping;
  for (int look = 0; look < kLooks; ++look) {
    const std::string turns = thread.Turns();
    const auto call = thread.ReadInCall();
    if (!call) {
      sleeping.allowed = thread.error() != EPERM && thread.error() != EACCES;
      return sleeping;
    }
    sleeping.call = *call;
    if (call->running) return sleeping;
    Snapshot snapshot;
    snapshot.registers.pc = call->pc;
    snapshot.registers.Set(processor::kStackPointer, call->stack_pointer);
    if (call->number >= 0) processor::SetArguments(call->arguments, &snapshot.registers);
    CopyStack(memory, maps, call->stack_pointer, &snapshot);
    // It slept in this call from before the first look until after the copy if it had no turn in between.
    if (thread.Turns() != turns || turns.empty()) continue;
    sleeping.snapshot = std::move(snapshot);
    return sleeping;
  }
  return sleeping;
}

}  // namespace ncclwatch::stacks
