#include "shim/lifecycle/words/backtrace.h"

#include "shim/lifecycle/words/cfi.h"
#include "shim/lifecycle/words/loaded.h"
#include "shim/lifecycle/words/self_memory.h"
#include "shim/recorder/box.h"
#include "shim/recorder/put.h"

namespace ncclwatch::shim {
namespace {

constexpr std::uint64_t kLargestFrame = 16 << 20;  // of a caller that frame pointers may lead to

// Names of modules that stand in the strings already.
struct Named {
  std::uint64_t begin;
  std::uint32_t name;
};
constexpr int kNamed = 16;
Named named[kNamed];
int named_used = 0;
Registers registers;
StepWork work;
char path[512];

std::uint32_t NameOf(Box& box, const Loaded& module) {
  for (int i = 0; i < named_used; ++i)
    if (named[i].begin == module.begin) return named[i].name;
  PathOf(module, path, sizeof path);
  const std::uint32_t name = path[0] ? AddString(box, path) : 0;
  if (named_used < kNamed) named[named_used++] = {module.begin, name};
  return name;
}

// Through the frame pointers that some compilers keep; where they are not kept this leads nowhere, and is not followed.
bool StepByFramePointer(Registers* at) {
  std::uint64_t link[2];  // the caller's frame pointer and the return address, on both processors
  const std::uint64_t frame = at->value[Registers::kFrame];
  const std::uint64_t stack = at->value[Registers::kStack];
  if (frame < stack || frame - stack > kLargestFrame || frame % 8 != 0 || !ReadSelf(frame, &link)) return false;
  Loaded caller;
  const std::uint64_t pc = PlainAddress(link[1]);
  if (!FindLoaded(pc, &caller)) return false;
  at->value[Registers::kFrame] = link[0];
  at->value[Registers::kStack] = frame + sizeof link;
  at->pc = pc;
  return true;
}

// A call through a pointer that leads nowhere: nothing has been done yet but the call itself.
bool StepOutOfNowhere(Registers* at) {
#if defined(__x86_64__)
  std::uint64_t caller = 0;
  if (!ReadSelf(at->value[Registers::kStack], &caller)) return false;
  at->value[Registers::kStack] += sizeof caller;
#else
  const std::uint64_t caller = PlainAddress(at->value[Registers::kLink]);
#endif
  Loaded module;
  if (!FindLoaded(caller, &module)) return false;
  at->pc = caller;
  return true;
}

Stepped Step(const Loaded* module, bool exact, bool first, Registers* at) {
  if (module && module->eh_frame_hdr != 0) {
    const Stepped stepped = StepByTable(module->eh_frame_hdr, exact, at, &work);
    if (stepped != Stepped::kNo) return stepped;
  }
  if (first && !module) return StepOutOfNowhere(at) ? Stepped::kCaller : Stepped::kNo;
  return StepByFramePointer(at) ? Stepped::kCaller : Stepped::kNo;
}

}  // namespace

std::uint32_t Backtrace(Box& box, const ucontext_t& context, std::uint32_t most, format::Frame* frames) {
  FromContext(context, &registers);
  bool exact = true;
  std::uint32_t used = 0;
  while (used < most) {
    Loaded module;
    const std::uint64_t place = exact ? registers.pc : registers.pc - 1;
    const bool known = FindLoaded(place, &module);
    Put(frames[used].address, registers.pc);
    Put(frames[used].offset, known ? place - module.bias : 0);
    Put(frames[used].module, known ? NameOf(box, module) : 0);
    ++used;
    const std::uint64_t stack = registers.value[Registers::kStack];
    const Stepped stepped = Step(known ? &module : nullptr, exact, used == 1, &registers);
    if (stepped == Stepped::kNo || stepped == Stepped::kEnd) break;
    // Callers lie further up, but for what a signal's frame leads to (from an alternate stack), and but for the first
    // step of a function without a frame of its own on processors that keep return addresses in a register.
    if (stepped == Stepped::kCaller &&
        (registers.value[Registers::kStack] < stack || (registers.value[Registers::kStack] == stack && used > 1)))
      break;
    exact = stepped == Stepped::kSignal;
  }
  return used;
}

}  // namespace ncclwatch::shim
