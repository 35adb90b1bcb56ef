// The core's one exported function: gives the preloaded file its wrappers (shim/preload/core.h).
#include "shim/base/export.h"
#include "shim/base/process.h"
#include "shim/hooks/answer.h"
#include "shim/process/exit.h"
#include "shim/resolve/modules.h"
#include "shim/resolve/preload.h"
#include "watchdog/descriptors/standard.h"

namespace ncclwatch::shim::resolve {

constinit const preload::Preload* front = nullptr;

bool IsOurs(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return (at >= OwnModule().begin && at < OwnModule().end) || (at >= front->begin && at < front->end);
}

}  // namespace ncclwatch::shim::resolve

// Defined in this library under the very names; their headers would declare other types.
extern "C" {
#define ENTRY(number, name, kind) [[gnu::visibility("hidden")]] void ncclwatch_entry_##number() __asm__(#name);
#include "entries.inc"
#undef ENTRY

NCCLWATCH_EXPORT const ncclwatch::shim::preload::Core* ncclwatch_core_open(
    const ncclwatch::shim::preload::Preload* preload) {
  using namespace ncclwatch::shim;
  static void* const kWrappers[] = {
#define ENTRY(number, name, kind) reinterpret_cast<void*>(&ncclwatch_entry_##number),
#include "entries.inc"
#undef ENTRY
  };
  static const preload::Core kCore = {preload::kVersion, sizeof kWrappers / sizeof *kWrappers, kWrappers,
                                      resolve::Answer, resolve::AnswerCuda};
  if (preload->version != preload::kVersion) return &kCore;
  if (__atomic_exchange_n(&resolve::front, preload, __ATOMIC_ACQ_REL) != nullptr) return &kCore;
  for (const int fd : {1, 2}) {
    const preload::File& file = preload->standard[fd];
    ncclwatch::descriptors::RememberStandardFile(fd, {file.open, file.mode, file.device, file.inode, file.special});
  }
  NameLines();
  if (PrepareForEnd) PrepareForEnd();
  return &kCore;
}
}
