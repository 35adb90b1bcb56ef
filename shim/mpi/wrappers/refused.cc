// Functions that only ask are not wrapped: MPI_Comm_rank costs nothing here. Over an error, and before MPI_Init and
// after MPI_Finalize, the library answers them by ending the process, and its stack tells over what.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdlib>
#include <iterator>
#include <string_view>

#include "shim/base/export.h"
#include "shim/base/process.h"
#include "shim/crash_handlers/loaded.h"
#include "shim/crash_handlers/symbols.h"
#include "shim/mpi/core/misuse.h"
#include "shim/mpi/core/phase.h"
#include "shim/mpi/core/real.h"
#include "shim/mpi/record/record.h"
#include "shim/process/exit.h"
#include "shim/resolve/preload.h"

namespace ncclwatch::shim::mpi {
namespace {

using functions::Function;

Function Named(std::string_view name) {
  if (name.starts_with("PMPI_")) name.remove_prefix(1);
  for (const functions::FunctionInfo& info : functions::kFunctions)
    if (info.name == name) return info.function;
  return Function::kNone;
}

// The outermost function of MPI on this thread's stack, and where the application calls it.
struct Refused {
  Function function = Function::kNone;
  std::uint64_t site = 0;
};

// _exit() may be called in a signal handler, and beside a thread that has the loader's lock and does not give it back:
// what is asked for every such call takes no lock and makes no system call. IsMpisOwn() would.
bool IsMpisCode(std::uint64_t place, Executing* module) {
  if (!FindExecuting(place, module)) return false;
  if (IsMpisFile(module->file)) return true;
  // A function of MPI that ends in a jump to another one: MPICH's MPI_Keyval_create does.
  Executing own;
  return FindExecuting(reinterpret_cast<std::uint64_t>(&IsMpisCode), &own) && own.begin == module->begin;
}

// Whose variables these are. A forked child inherits them, and the stack of a call of MPI: it ends as it wants to.
std::uint32_t prepared_by = 0;

bool IsChild() {
  const Box* const box = CurrentBox();
  return static_cast<std::uint32_t>(syscall(SYS_getpid)) != (box ? box->pid : prepared_by);
}

_Unwind_Reason_Code Step(_Unwind_Context* context, void* data) {
  Refused& refused = *static_cast<Refused*>(data);
  const std::uint64_t place = _Unwind_GetIP(context);
  Executing module;
  if (!IsMpisCode(place - 1, &module)) {
    refused.site = place;
    return _URC_NORMAL_STOP;
  }
  ForNamesAt(module, place - 1, [&](const char* name) {
    if (const Function function = Named(name); function != Function::kNone) refused.function = function;
  });
  return _URC_NO_REASON;
}

// The thread is in a call that has a record.
bool IsReported(Box& box, Function function) {
  const std::uint64_t head = box.header->head.load(std::memory_order_relaxed);
  if (head == 0) return false;
  const format::MpiRecord& last = RecordAt(box, head - 1);
  return last.function == static_cast<std::uint32_t>(function) && last.thread == current_thread.id &&
         last.returned.load(std::memory_order_relaxed) == 0;
}

void Note() {
  const Phase now = phase.load(std::memory_order_relaxed);
  const bool inside = now == Phase::kRunning;
  if (now == Phase::kUnseen) return;
  Refused refused;
  _Unwind_Backtrace(Step, &refused);
  const functions::FunctionInfo* info = functions::Find(refused.function);
  if (!info || refused.site == 0 || !IsOurAbi()) return;
  // Of what is wrapped it was said before it was passed on.
  if (!inside && (info->family != functions::Family::kQuery || !IsOutside())) return;
  Box* const box = inside ? CurrentBox() : FirstUse(0);
  if (!box) return;
  Call call(*box, current_thread, refused.function, refused.site);
  if (inside) return IsReported(*box, refused.function) ? void() : EnterOther(call);
  Report(call, {.wrong = now == Phase::kOver ? Wrong::kAfterFinalize : Wrong::kBeforeInit});
}

}  // namespace
}  // namespace ncclwatch::shim::mpi

void ncclwatch::shim::PrepareForEnd() {
  mpi::prepared_by = static_cast<std::uint32_t>(syscall(SYS_getpid));
  PrepareLoaded();
}

void ncclwatch::shim::BeforeEnd(std::uint64_t site, int status) {
  Executing module;
  if (mpi::IsChild() || !mpi::IsMpisCode(site - 1, &module)) return;
  // By MPI itself. First of all: MPICH has asked its launcher to kill everybody, which waits for nothing more. A thread
  // that has made no call is MPI's own, which listens to the launcher.
  if (mpi::phase.load(std::memory_order_relaxed) == mpi::Phase::kRunning) NoteExit(status, !current_thread.box);
  mpi::Note();
}

extern "C" NCCLWATCH_EXPORT void exit(int status) {
  ncclwatch::shim::BeforeEnd(reinterpret_cast<std::uint64_t>(__builtin_return_address(0)), status);
  auto* const real = reinterpret_cast<void (*)(int)>(ncclwatch::shim::resolve::Next("exit"));
  if (real) real(status);
  _exit(status);
}
