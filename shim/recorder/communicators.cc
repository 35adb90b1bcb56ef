#include "shim/recorder/communicators.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "shim/base/keep_errno.h"
#include "shim/base/nccl_compat.h"
#include "shim/base/process.h"
#include "shim/base/put.h"
#include "shim/black_box/box.h"
#include "shim/black_box/environment.h"
#include "shim/black_box/identity.h"
#include "shim/black_box/table.h"
#include "shim/recorder/driver.h"
#include "shim/recorder/marks.h"
#include "shim/resolve/libraries.h"

namespace ncclwatch::shim {
namespace {

using format::CommunicatorState;
using format::kNoCommunicator;
using functions::Function;

// Which GPU a communicator runs on, by the names under which operators know it.

// "GPU-5c1f0e9a-...", as nvidia-smi prints it.
std::string UuidText(const char* prefix, const CUuuid& uuid) {
  std::string text = prefix;
  for (int i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                        static_cast<unsigned char>(uuid.bytes[i]));
  return text;
}

std::string NameOf(const device::Driver& driver, int ordinal) {
  CUdevice device = 0;
  CUuuid whole{}, own{};
  if (!driver.device_get || driver.device_get(&device, ordinal) != CUDA_SUCCESS) return {};
  const bool has_whole = driver.device_uuid && driver.device_uuid(&whole, device) == CUDA_SUCCESS;
  const bool has_own = driver.instance_uuid && driver.instance_uuid(&own, device) == CUDA_SUCCESS;
  if (!has_whole && !has_own) return {};
  const bool instance = has_whole && has_own && std::memcmp(&whole, &own, sizeof whole) != 0;
  std::string text = UuidText(instance ? "MIG-" : "GPU-", has_own ? own : whole);
  char bus[32] = {};
  if (driver.pci_bus_id && driver.pci_bus_id(bus, sizeof bus, device) == CUDA_SUCCESS && bus[0])
    text += fmt::format(" {}", bus);
  return text;
}

// Once the communicator's device is known. Asks the driver, which NCCL has initialized by then, and makes no context.
void NameGpu(Box& box, std::uint32_t index) {
  format::Communicator& entry = box.communicators[index];
  const std::int32_t ordinal = entry.device;
  if (ordinal < 0 || ordinal >= kNamedGpus) return;
  std::uint32_t name = box.gpu_names[ordinal].load(std::memory_order_acquire);
  if (name == 0) {
    device::Driver driver;
    device::LoadDriver(resolve::libraries[entry.library].path, &driver);
    const std::string text = NameOf(driver, ordinal);
    name = text.empty() ? 0 : AddString(box, text.c_str());
    box.gpu_names[ordinal].store(name, std::memory_order_release);
  }
  // Whoever sees the offset sees the text.
  std::atomic_ref(entry.gpu).store(name, std::memory_order_release);
}

void Bind(Box& box, std::uint32_t index, std::uint64_t handle) {
  if (!handle) return;
  WriterLock lock(box);
  Put(box.communicators[index].handle, handle);
  box.handles.Insert(handle, index);
}

// Once, with the first communicator.
void NoteSurroundings(Box& box, std::uint32_t library) {
  NoteLibrary(box, library);
  device::Driver driver;
  int cuda = 0;
  device::LoadDriver(resolve::libraries[library].path, &driver);
  if (driver.version && driver.version(&cuda) != CUDA_SUCCESS) cuda = 0;
  NoteEnvironment(box, {.mpi = nullptr, .cuda = cuda});
}

// A job of the library may be writing it; its release (ncclCommInitRankFunc) comes after the communicator is made.
std::uint64_t HandleAt(void** out) {
  return out ? reinterpret_cast<std::uint64_t>(std::atomic_ref(*out).load(std::memory_order_acquire)) : 0;
}

// Several threads may be told at once that a pending communicator is there: each of them binds its handle.
std::uint64_t HandleOf(format::Communicator& entry) {
  return std::atomic_ref(entry.handle).load(std::memory_order_acquire);
}

bool IsPending(Private& mine) { return std::atomic_ref(mine.pending).load(std::memory_order_acquire); }

// Several threads may ask how one communicator fares: one of them settles it.
bool TakePending(Box& box, Private& mine) {
  if (!std::atomic_ref(mine.pending).exchange(false)) return false;
  box.unsettled.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

// What only the finished communicator can say. Asked of the library, past our own wrappers.
void Ask(format::Communicator& entry) {
  auto* comm = reinterpret_cast<ncclComm_t>(HandleOf(entry));
  int rank = 0, size = 0, device = -1;
  const std::uint32_t library = entry.library;
  if (resolve::Rank(library, comm, &rank) && resolve::Size(library, comm, &size)) {
    Put(entry.rank, rank);
    Put(entry.size, size);
    Put(entry.flags, entry.flags & ~format::kCommRankUnknown);
  }
  if (resolve::Device(library, comm, &device)) Put(entry.device, device);
}

void Ready(Box& box, std::uint32_t index) {
  format::Communicator& entry = box.communicators[index];
  Ask(entry);
  box.privates[index].out = nullptr;
  NameGpu(box, index);
  device::Prepare(box, index);
  // Not if another thread has aborted it meanwhile.
  ChangeState(entry, CommunicatorState::kInitializing, CommunicatorState::kReady);
}

void Fail(Box& box, std::uint32_t index) {
  box.privates[index].out = nullptr;
  SetState(box.communicators[index], CommunicatorState::kFailed);
}

// NCCL_COMM_BLOCKING outranks the configuration; InProgress, later, outranks both.
std::uint32_t BlockingFlag(const void* config, std::uint32_t parent_flags) {
  if (const char* forced = std::getenv("NCCL_COMM_BLOCKING"); forced && (*forced == '0' || *forced == '1'))
    return *forced == '0' ? format::kCommNonBlocking : 0u;
  if (!config) return parent_flags & format::kCommNonBlocking;
  return static_cast<const ConfigView*>(config)->blocking == 0 ? format::kCommNonBlocking : 0u;
}

void Label(format::Communicator& entry, const void* config) {
  const auto* view = static_cast<const ConfigView*>(config);
  // Without the magic number it was never initialized: NCCL refuses it, and its pointers point anywhere.
  if (!view || view->magic != kConfigMagic || view->size < sizeof(ConfigView) || !view->name) return;
  SetLabel(entry, view->name);
}

// The key under which a rank's uses of an id are counted.
std::uint64_t UseOfRank(std::uint64_t id, int rank) {
  return identity::NotZero(format::Mix(id, static_cast<std::uint64_t>(rank)));
}

Origin OfRoot(Box& box, const Creation& made) {
  Origin origin;
  origin.rank = static_cast<std::uint32_t>(made.rank);
  origin.size = static_cast<std::uint32_t>(made.size);
  if (made.ids) {
    const std::uint64_t id = identity::OfUniqueId(made.ids);
    origin.id = identity::OfRoot(id, CountUse(box, UseOfRank(id, made.rank)));
  } else {
    origin.flags |= format::kCommIdentityUnknown;
  }
  return origin;
}

// All ranks of InitAll live here: any number that no other process draws will do.
Origin OfAll(Box& box, const Creation& made) {
  const format::Identity& self = box.header->identity;
  std::uint64_t process = format::Mix(self.pid, self.start_time);
  for (const char c : self.host) process = format::Mix(process, static_cast<unsigned char>(c));
  Origin origin;
  origin.size = static_cast<std::uint32_t>(made.size);
  origin.id = identity::OfChild(identity::kAll, process, box.inits_all.fetch_add(1), 0);
  return origin;
}

Origin OfChild(Box& box, const Call& call, const format::Communicator& parent) {
  const Creation& made = *call.creation;
  Origin origin;
  origin.parent = parent.id;
  origin.ordinal = call.position;
  origin.flags = format::kCommRankUnknown | (parent.flags & format::kCommIdentityUnknown);
  if (call.function == Function::ncclCommSplit) {
    origin.color = made.color;
    origin.id = identity::OfChild(identity::kSplit, parent.id, call.position, static_cast<std::uint64_t>(made.color));
  } else if (call.function == Function::ncclCommShrink) {
    const std::uint64_t id = identity::OfChild(identity::kShrink, parent.id, call.position,
                                               identity::OfExcluded(made.list, made.list_count));
    origin.id = identity::OfRoot(id, CountUse(box, UseOfRank(id, static_cast<int>(parent.rank))));
  } else {
    origin.flags |= format::kCommGrown;
    origin.size = static_cast<std::uint32_t>(made.size);
    origin.id = identity::OfChild(identity::kGrow, parent.id, call.position, origin.size);
  }
  return origin;
}

void BeginAll(Box& box, Call& call) {
  Origin origin = OfAll(box, *call.creation);
  std::uint32_t* link = &call.created;
  for (int i = 0; i < call.creation->size; ++i) {
    origin.rank = static_cast<std::uint32_t>(i);
    const std::uint32_t index = Make(box, origin, call.library);
    if (index == kNoCommunicator) break;
    Put(box.communicators[index].device, call.creation->list ? call.creation->list[i] : i);
    box.privates[index].out = call.creation->out ? call.creation->out + i : nullptr;
    *link = index;
    link = &box.privates[index].sibling;
  }
  call.index = call.created;
}

// The parent's ordinal counts every creating call that all its ranks make, also one that makes nothing for this rank.
// Not ncclCommShrink, which the excluded ranks do not call: their later splits would get other names (NCCL's own
// count, splitCount of its communicator, leaves it out too). Equal shrinks are told apart by how often they came.
void BeginChild(Box& box, Call& call) {
  call.index = Lookup(box, call.library, call.communicator);
  if (call.index == kNoCommunicator) return;
  format::Communicator& parent = box.communicators[call.index];
  call.generation = GenerationOf(parent);
  call.position = parent.creations.load(std::memory_order_relaxed);
  if (call.function != Function::ncclCommShrink) parent.creations.store(call.position + 1, std::memory_order_release);
  if (call.function == Function::ncclCommSplit && call.creation->color == NCCL_SPLIT_NOCOLOR) return;
  Origin origin = OfChild(box, call, parent);
  origin.flags |= BlockingFlag(call.creation->config, parent.flags);
  call.created = Make(box, origin, call.library);
  if (call.created != kNoCommunicator) box.privates[call.created].parent_handle = call.communicator;
}

void EndOne(Box& box, std::uint32_t index, int result) {
  format::Communicator& entry = box.communicators[index];
  Private& mine = box.privates[index];
  if (result != ncclSuccess && result != ncclInProgress) return Fail(box, index);
  Bind(box, index, HandleAt(mine.out));
  // It may have lain on the stack of a thread that ends before the communicator is ready.
  if (entry.handle) mine.out = nullptr;
  if (result == ncclInProgress) Put(entry.flags, entry.flags | format::kCommNonBlocking);
  if (entry.flags & format::kCommNonBlocking) {
    if (!std::atomic_ref(mine.pending).exchange(true)) box.unsettled.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (entry.handle) return Ready(box, index);
  Fail(box, index);  // success, and yet no communicator: this rank is not part of it
}

// A pending communicator whose handle has appeared since: a split of a non-blocking parent.
std::uint32_t FindPending(Box& box, std::uint64_t handle) {
  if (box.unsettled.load(std::memory_order_relaxed) == 0) return kNoCommunicator;
  const std::uint32_t used = box.header->communicators_used.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < used; ++i) {
    if (!IsPending(box.privates[i]) || HandleAt(box.privates[i].out) != handle) continue;
    Bind(box, i, handle);
    box.privates[i].out = nullptr;
    return i;
  }
  return kNoCommunicator;
}

}  // namespace

std::uint32_t Adopt(Box& box, std::uint32_t library, std::uint64_t handle) {
  const KeepErrno keep;
  const std::uint32_t pending = FindPending(box, handle);
  if (pending != kNoCommunicator) return pending;
  Origin origin;
  origin.flags = format::kCommIdentityUnknown | format::kCommRankUnknown;
  const std::uint32_t index = Make(box, origin, library);
  if (index == kNoCommunicator) return index;
  Bind(box, index, handle);
  Ready(box, index);
  return index;
}

void BeginCreation(Box& box, Call& call) {
  const Creation& made = *call.creation;
  if (call.function == Function::ncclCommInitAll) {
    BeginAll(box, call);
  } else if (call.communicator) {
    BeginChild(box, call);
  } else if (call.function != Function::ncclCommSplit && call.function != Function::ncclCommShrink) {
    Origin origin = OfRoot(box, made);
    origin.flags |= BlockingFlag(made.config, 0);
    if (call.function == Function::ncclCommGrow) origin.flags |= format::kCommGrown;
    call.created = call.index = Make(box, origin, call.library);
  }
  if (call.created == kNoCommunicator) return;
  if (!box.library_settled.load(std::memory_order_relaxed) && !box.library_settled.exchange(true))
    NoteSurroundings(box, call.library);
  if (call.function != Function::ncclCommInitAll) box.privates[call.created].out = made.out;
  Label(box.communicators[call.created], made.config);
  if (call.index == call.created) call.generation = GenerationOf(box.communicators[call.index]);
}

void EndCreation(Box& box, std::uint32_t created, int result) {
  while (created != kNoCommunicator) {
    const std::uint32_t next = box.privates[created].sibling;
    EndOne(box, created, result);
    created = next;
  }
}

void AsyncState(Box& box, std::uint64_t handle, int state) {
  if (state == ncclInProgress) return;
  const std::uint32_t used = box.header->communicators_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    Private& mine = box.privates[i];
    if (!IsPending(mine)) continue;
    format::Communicator& entry = box.communicators[i];
    // A child's handle is written by the time its parent is done: only then may `out` be read.
    if (HandleOf(entry) != handle && mine.parent_handle != handle) continue;
    if (state == ncclSuccess && !HandleOf(entry)) Bind(box, i, HandleAt(mine.out));
    if (state == ncclSuccess && !HandleOf(entry)) continue;
    if (!TakePending(box, mine)) continue;  // another thread asked too
    if (state == ncclSuccess)
      Ready(box, i);
    else
      Fail(box, i);
  }
}

void BeginLifecycle(Box& box, Call& call) {
  const bool ends = call.function == Function::ncclCommDestroy || call.function == Function::ncclCommAbort;
  // Never adopted here: its library would be asked about a communicator that may be broken, or stuck in the very call
  // that the application wants to end; and one that found no room would take an ended one's entry, and with it its
  // name, only to end itself.
  call.index = box.handles.Find(call.communicator);
  if (call.index == kNoCommunicator && call.communicator) call.index = FindPending(box, call.communicator);
  if (call.index == kNoCommunicator) return;
  format::Communicator& entry = box.communicators[call.index];
  call.generation = GenerationOf(entry);
  if (call.function == Function::ncclCommFinalize || call.function == Function::ncclCommDestroy)
    SetState(entry, CommunicatorState::kFinalizing);
  if (call.function == Function::ncclCommAbort) NoteAbort(entry, CommunicatorState::kAborted);
  if (call.function == Function::ncclCommRevoke) NoteAbort(entry, CommunicatorState::kRevoked);
  if (!ends) return;
  // Before the call frees it: the next communicator may get the same address, in another thread, at once.
  WriterLock lock(box);
  box.handles.Remove(call.communicator);
  // Where a pending handle, its own or a child's, was to appear may be gone from now on.
  const std::uint32_t used = box.header->communicators_used.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < used && box.unsettled.load(std::memory_order_relaxed) != 0; ++i) {
    Private& other = box.privates[i];
    if (!IsPending(other) || (i != call.index && other.parent_handle != call.communicator)) continue;
    TakePending(box, other);
  }
}

void EndLifecycle(Box& box, const Call& call, int result) {
  if (call.index == kNoCommunicator) return;
  format::Communicator& entry = box.communicators[call.index];
  if (call.function != Function::ncclCommDestroy || (result != ncclSuccess && result != ncclInProgress)) return;
  // Not if another thread has aborted it while this call was stuck: the entry may be the next one's.
  if (GenerationOf(entry) == call.generation)
    ChangeState(entry, CommunicatorState::kFinalizing, CommunicatorState::kDestroyed);
}

}  // namespace ncclwatch::shim
