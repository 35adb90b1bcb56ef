#include "shim/exit_report/errors.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "shim/base/keep_errno.h"
#include "shim/black_box/table.h"
#include "shim/exit_report/allocations.h"
#include "shim/exit_report/write.h"
#include "shim/resolve/libraries.h"

namespace ncclwatch::shim {
namespace {

using functions::Function;

// NCCL keeps the last error of the process as text; the communicator that is asked for does not matter, and may be
// garbage where the call was refused for it.
const char* TextOf(std::uint32_t library) {
  const auto ask = reinterpret_cast<decltype(&ncclGetLastError)>(resolve::Real(library, Function::ncclGetLastError));
  const char* const text = ask ? ask(nullptr) : nullptr;
  return text ? text : "";
}

void Write(Box& box, const Call& call, int result, std::uint32_t flags) {
  const std::uint64_t number = box.words->errors_seen.fetch_add(1, std::memory_order_relaxed);
  WriteEntry(box.words->errors[format::NcclErrorSlot(number)], number, [&](format::NcclError& entry) {
    Put(entry.slot, call.slot);
    Put(entry.function, static_cast<std::uint32_t>(call.function));
    Put(entry.communicator, call.index);
    Put(entry.generation, call.generation);
    Put(entry.result, result);
    Put(entry.thread, static_cast<std::uint32_t>(syscall(SYS_gettid)));
    Put(entry.flags, flags);
    PutRedacted(entry.text, TextOf(call.library), box.secret_names);
  });
}

// The job is being ended: errors of calls are our own answers, or come of the aborts.
bool EndsCalls(const Box& box) { return (box.detours.load(std::memory_order_relaxed) & kRefuses) != 0; }

}  // namespace

void NoteError(Box& box, const Call& call, int result) {
  const KeepErrno keep;
  if (call.function == Function::ncclCommAbort || call.function == Function::ncclCommDestroy || !box.Watching()) return;
  if (EndsCalls(box)) return;
  if (call.function == Function::ncclMemAlloc) return NoteFailedMemAlloc(box, call.count, result);
  Write(box, call, result, 0);
}

void NoteAsynchronousError(Box& box, std::uint64_t communicator, int result) {
  const KeepErrno keep;
  Call call;
  call.function = Function::ncclCommGetAsyncError;
  call.index = box.handles.Find(communicator);
  if (call.index == format::kNoCommunicator || !box.Watching()) return;
  call.library = box.communicators[call.index].library;
  call.generation = GenerationOf(box.communicators[call.index]);
  if (box.privates[call.index].reported_error.exchange(call.generation + 1, std::memory_order_relaxed) ==
      call.generation + 1)
    return;
  Write(box, call, result, format::kErrorAsynchronous);
}

}  // namespace ncclwatch::shim
