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
  bool by_handler = false;  // MPI_ERRORS_ARE_FATAL of Open MPI, whose exit status is the error's class
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
    if (std::string_view(name).starts_with("ompi_mpi_errors_are_fatal")) refused.by_handler = true;
    if (const Function function = Named(name); function != Function::kNone) refused.function = function;
  });
  return _URC_NO_REASON;
}

// Of the call that the thread is in; null: it has none.
const format::MpiRecord* OpenRecord(Box& box) {
  const std::uint64_t head = box.header->head.load(std::memory_order_relaxed);
  if (head == 0) return nullptr;
  const format::MpiRecord& last = RecordAt(box, head - 1);
  const bool inside = last.thread == current_thread.id && last.returned.load(std::memory_order_relaxed) == 0;
  return inside ? &last : nullptr;
}

// Only errors that the call's own arguments cause: what others cause (a peer that is gone) has other classes.
constexpr struct {
  int error_class;
  Wrong wrong;
} kRefusals[] = {{MPI_ERR_ARG, Wrong::kRefusedArgument},       {MPI_ERR_BUFFER, Wrong::kRefusedBuffer},
                 {MPI_ERR_COMM, Wrong::kRefusedCommunicator},  {MPI_ERR_COUNT, Wrong::kRefusedCount},
                 {MPI_ERR_FILE, Wrong::kRefusedFile},          {MPI_ERR_GROUP, Wrong::kRefusedGroup},
                 {MPI_ERR_INFO, Wrong::kRefusedInfo},          {MPI_ERR_OP, Wrong::kRefusedOperator},
                 {MPI_ERR_RANK, Wrong::kRefusedRank},          {MPI_ERR_REQUEST, Wrong::kRefusedRequest},
                 {MPI_ERR_ROOT, Wrong::kRefusedRoot},          {MPI_ERR_TAG, Wrong::kRefusedTag},
                 {MPI_ERR_TOPOLOGY, Wrong::kRefusedTopology},  {MPI_ERR_DIMS, Wrong::kRefusedTopology},
                 {MPI_ERR_TYPE, Wrong::kRefusedType},          {MPI_ERR_WIN, Wrong::kRefusedWindow},
                 {MPI_ERR_RMA_RANGE, Wrong::kRefusedAccess},   {MPI_ERR_DISP, Wrong::kRefusedAccess},
                 {MPI_ERR_SIZE, Wrong::kRefusedAccess},        {MPI_ERR_RMA_SYNC, Wrong::kRefusedEpoch},
                 {MPI_ERR_RMA_CONFLICT, Wrong::kRefusedEpoch}, {MPI_ERR_TRUNCATE, Wrong::kTruncated}};

bool IsCharged(const Box& box, const Call& call) {
  const std::uint64_t seen = box.words->misuses_seen.load(std::memory_order_relaxed);
  for (std::uint64_t i = 0; i < seen && i < format::kMisuses; ++i) {
    const format::Misuse& entry = box.words->misuses[i];
    if (entry.site == call.site && entry.function == static_cast<std::uint32_t>(call.function) &&
        entry.result.load(std::memory_order_relaxed) == format::kNoResult)
      return true;
  }
  return false;
}

void ReportRefusal(Box& box, Call& call, int error_class) {
  if (IsCharged(box, call)) return;  // it was found wrong before MPI was asked
  for (const auto& refusal : kRefusals)
    if (refusal.error_class == error_class) return Report(call, {.wrong = refusal.wrong, .ends_process = true});
}

void Note(int status, bool refused_here) {
  const Phase now = phase.load(std::memory_order_relaxed);
  const bool inside = now == Phase::kRunning;
  if (now == Phase::kUnseen) return;
  Refused refused;
  _Unwind_Backtrace(Step, &refused);
  Box* const own = inside ? CurrentBox() : nullptr;
  const format::MpiRecord* const record = own ? OpenRecord(*own) : nullptr;
  // Some functions jump to what handles their error, and are not on the stack any more.
  if (record && refused.function == Function::kNone) refused.function = static_cast<Function>(record->function);
  const functions::FunctionInfo* info = functions::Find(refused.function);
  if (!info || refused.site == 0 || !IsOurAbi()) return;
  // Of what is wrapped it was said before it was passed on.
  if (!inside && (info->family != functions::Family::kQuery || !IsOutside())) return;
  Box* const box = inside ? own : FirstUse(0);
  if (!box) return;
  Call call(*box, current_thread, refused.function, refused.site);
  if (inside) {
    if (record && record->function == static_cast<std::uint32_t>(refused.function)) {
      call.site = record->site;
      call.index = record->communicator;
      call.generation = record->generation;
    } else {
      EnterOther(call);
    }
    if (refused_here || refused.by_handler) ReportRefusal(*box, call, status);
    return;
  }
  Report(call, {.wrong = now == Phase::kOver ? Wrong::kAfterFinalize : Wrong::kBeforeInit});
}

}  // namespace
}  // namespace ncclwatch::shim::mpi

void ncclwatch::shim::PrepareForEnd() {
  mpi::prepared_by = static_cast<std::uint32_t>(syscall(SYS_getpid));
  PrepareLoaded();
}

void ncclwatch::shim::BeforeEnd(std::uint64_t site, int status, bool refused) {
  Executing module;
  if (mpi::IsChild() || !mpi::IsMpisCode(site - 1, &module)) return;
  // By MPI itself. First of all: MPICH has asked its launcher to kill everybody, which waits for nothing more. A thread
  // that has made no call is MPI's own, which listens to the launcher.
  if (mpi::phase.load(std::memory_order_relaxed) == mpi::Phase::kRunning) NoteExit(status, !current_thread.box);
  mpi::Note(status, refused);
}

extern "C" NCCLWATCH_EXPORT void exit(int status) {
  ncclwatch::shim::BeforeEnd(reinterpret_cast<std::uint64_t>(__builtin_return_address(0)), status);
  auto* const real = reinterpret_cast<void (*)(int)>(ncclwatch::shim::resolve::Next("exit"));
  if (real) real(status);
  _exit(status);
}
