// The code of the preloaded file (core.h). It must load into every process of a machine, whatever its C library is: so
// it needs no function of any library. Those that it does use are weak, and may be missing.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include <atomic>
#include <cstddef>

#include "shim/preload/core.h"
#include "shim/preload/elf_symbol.h"
#include "shim/preload/own_file.h"
#include "shim/preload/system.h"
#include "shim/preload/words.h"
#include "watchdog/descriptors/harmless_write.h"

extern "C" {
// NOLINTBEGIN(readability-redundant-declaration): their headers do not make them weak
[[gnu::weak]] decltype(dl_iterate_phdr) dl_iterate_phdr;
[[gnu::weak]] decltype(dlopen) dlopen;
[[gnu::weak]] decltype(dlerror) dlerror;
[[gnu::weak]] decltype(dlvsym) dlvsym;
[[gnu::weak]] decltype(getauxval) getauxval;
[[gnu::weak]] decltype(pthread_create) pthread_create;
[[gnu::weak]] char* getenv(const char*);
[[gnu::weak]] int* __errno_location();

// NOLINTEND(readability-redundant-declaration)

// glibc's since 2.35, as its header has it: takes no lock.
struct DlFindObject {
  unsigned long long flags;
  void* begin;
  void* end;
  link_map* map;
  void* reserved[8];
};
[[gnu::weak]] int ncclwatch_find_object(void* address, DlFindObject* found) __asm__("_dl_find_object");

// What the assembly uses.
#define NCCLWATCH_HIDDEN [[gnu::visibility("hidden")]]
NCCLWATCH_HIDDEN extern void* ncclwatch_slots[];
NCCLWATCH_HIDDEN extern void* ncclwatch_real_dlsym;  // null until the first call
NCCLWATCH_HIDDEN void* ncclwatch_find_dlsym();
NCCLWATCH_HIDDEN void* ncclwatch_function(unsigned number, const void* caller);
NCCLWATCH_HIDDEN void* ncclwatch_answer(void* handle, const char* name);
NCCLWATCH_HIDDEN void* ncclwatch_answer_cuda(void* handle, const char* name, const void* caller);
NCCLWATCH_HIDDEN void* memcpy(void* to, const void* from, std::size_t bytes);
NCCLWATCH_HIDDEN void* memset(void* to, int value, std::size_t bytes);

void* ncclwatch_real_dlsym = nullptr;
}

namespace ncclwatch::shim::preload {
namespace {

// What a call of an entry does while the core is not open.
enum Kind : unsigned char {
  kOpens,  // opens it
  kWaits,  // goes on to the real function
  kEnds,   // ends the process, by the system call
  kOwn,    // does nothing: a function of ours (ncclwatch/annotate.h)
};
constexpr Kind kKinds[] = {
#define ENTRY(number, name, kind) kind,
#include "entries.inc"
#undef ENTRY
};
constexpr char kNames[] =
#define ENTRY(number, name, kind) #name "\0"
#include "entries.inc"
#undef ENTRY
    ;
constexpr unsigned kEntries = sizeof kKinds;
constexpr int kNcclSystemError = 2;

const char* NameOf(unsigned number) {
  const char* name = kNames;
  for (; number > 0; --number) {
    while (*name) ++name;
    ++name;
  }
  return name;
}

// Written by whoever opens the core, always the same bytes.
Span own_span;
char own_path[kPath];

// ---- behind this file in load order ---------------------------------------------------------------------------------

bool IsCLibrary(const dl_phdr_info& info) {
  const char* const file = FileOf(info.dlpi_name);
  return BeginsWith(file, "libc.") || BeginsWith(file, "libdl.") || BeginsWith(file, "ld-musl");
}

struct Search {
  const char* name;
  void* behind = nullptr;
  void* in_c_library = nullptr;  // of a process that has opened this file, which then comes last
  bool past = false;
};
int FindBehind(dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  Span span;
  if (!search->past && IsOwn(*info, &span)) {
    search->past = true;
    return 0;
  }
  if (search->past) search->behind = FindSymbol(*info, search->name);
  if (!search->in_c_library && IsCLibrary(*info)) search->in_c_library = FindSymbol(*info, search->name);
  return search->behind != nullptr;
}

void* FindInOrder(const char* name) {
  Search search{name};
  if (dl_iterate_phdr) dl_iterate_phdr(FindBehind, &search);
  return search.behind ? search.behind : search.in_c_library;
}

// Before glibc 2.34 a process may have no dlsym at all: it lay in libdl.
void* NoDlsym(void*, const char*) { return nullptr; }

using Dlsym = void* (*)(void*, const char*);
Dlsym RealDlsym() {
  void* known = __atomic_load_n(&ncclwatch_real_dlsym, __ATOMIC_ACQUIRE);
  return reinterpret_cast<Dlsym>(known ? known : ncclwatch_find_dlsym());
}

// RTLD_NEXT is judged by the return address: never a tail call.
void* Next(const char* name) {
  const Dlsym real = RealDlsym();
  if (real == NoDlsym) return FindInOrder(name);
  void* found = real(RTLD_NEXT, name);
  __asm__ volatile("" : "+r"(found));
  return found;
}

void* Ask(void* handle, const char* name) {
  void* found = RealDlsym()(handle, name);
  __asm__ volatile("" : "+r"(found));
  return found;
}

// ---- standard output and error -------------------------------------------------------------------------------------

// A program may close them, and the next file that it opens gets their numbers: a checkpoint must not begin with a line
// of ours. So they are looked at before the program runs.
File standard[3];

File Look(int fd) {
  struct stat is;
  if (System(SYS_fstat, fd, reinterpret_cast<long>(&is)) != 0) return {};
  return {true, is.st_mode & S_IFMT, is.st_dev, is.st_ino, is.st_rdev};
}

// A constructor of another library may call before this one has run.
[[gnu::constructor]] void LookAtStandardFiles() {
  static std::atomic<bool> looked{false};
  if (looked.exchange(true)) return;
  standard[1] = Look(1);
  standard[2] = Look(2);
}

bool StandardErrorIsAsLoaded() {
  const File now = Look(2), &was = standard[2];
  return was.open && now.open && was.mode == now.mode && was.device == now.device && was.inode == now.inode &&
         was.special == now.special;
}

// ---- the core -------------------------------------------------------------------------------------------------------

// All threads that come here do the same; the last to write changes nothing. No lock: a thread may come here from a
// constructor, with the loader's lock, which another one waits for in dlopen.
std::atomic<const Core*> core{nullptr};
std::atomic<bool> hopeless{false};
Preload preload;

struct KeepErrno {
  int kept = __errno_location ? *__errno_location() : 0;
  KeepErrno() = default;
  ~KeepErrno() {
    if (__errno_location) *__errno_location() = kept;
  }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;
};

void Say(const char* what) {
  if (!StandardErrorIsAsLoaded()) return;
  constexpr char kBegin[] = "[ncclwatch] not watching: ";
  char line[512];
  std::size_t used = 0;
  for (const char* c = kBegin; *c; ++c) line[used++] = *c;
  for (const char* c = what; *c && used < sizeof line - 1; ++c) line[used++] = *c;
  line[used++] = '\n';
  constexpr int kPatience_ms = 50;
  descriptors::WriteHarmless([](long number, long a, long b, long c, long d) { return System(number, a, b, c, d); }, 2,
                             line, used, kPatience_ms);
}

// libncclwatch.so -> libncclwatch-core.so, beside it.
bool CorePath(const char* file, char (&path)[kPath]) {
  constexpr char kSuffix[] = "-core.so";
  std::size_t end = Length(file);
  while (end > 0 && file[end - 1] != '.' && file[end - 1] != '/') --end;
  if (end < 2 || file[end - 1] != '.' || end + sizeof kSuffix > sizeof path) return false;
  for (std::size_t i = 0; i < end - 1; ++i) path[i] = file[i];
  for (std::size_t i = 0; i < sizeof kSuffix; ++i) path[end - 1 + i] = kSuffix[i];
  return true;
}

const Core* GiveUp(const char* why) {
  if (!hopeless.exchange(true)) Say(why);
  return nullptr;
}

// Then the caller's variables decide nothing, and what lies beside this file is nobody's to run.
bool HasMoreRightsThanItsCaller() { return getauxval && getauxval(AT_SECURE) != 0; }

const Core* OpenCore() {
  if (const Core* known = core.load(std::memory_order_acquire)) return known;
  if (hopeless.load(std::memory_order_relaxed)) return nullptr;
  LookAtStandardFiles();
  if (HasMoreRightsThanItsCaller()) {
    hopeless.store(true);
    return nullptr;
  }
  if (!dl_iterate_phdr || !dlopen) return GiveUp("this C library opens no libraries");
  RealDlsym();  // before dl_iterate_phdr, which may ask for it
  OwnFile here;
  char path[kPath];
  if (!FindOwnFile(&here) || !CorePath(here.path, path)) return GiveUp("cannot tell where libncclwatch.so lies");
  own_span = here.span;
  for (std::size_t i = 0; i < kPath; ++i) own_path[i] = here.path[i];
  void* const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const char* const why = handle || !dlerror ? nullptr : dlerror();
  if (!handle) return GiveUp(why ? why : path);
  const auto open = reinterpret_cast<Open>(Ask(handle, kOpen));
  preload = {kVersion,       kEntries,        own_path,
             own_span.begin, own_span.end,    RealDlsym(),
             Next,           ncclwatch_slots, {standard[0], standard[1], standard[2]}};
  const Core* const opened = open ? open(&preload) : nullptr;
  if (!opened || opened->version != kVersion || opened->entries != kEntries)
    return GiveUp("libncclwatch-core.so is of another build");
  core.store(opened, std::memory_order_release);
  for (unsigned i = 0; i < kEntries; ++i) __atomic_store_n(&ncclwatch_slots[i], opened->wrappers[i], __ATOMIC_RELEASE);
  return opened;
}

// A call by which MPI may end the process before any other has opened the core: MPI_Comm_size before MPI_Init.
bool IsCallOfMpi(const void* caller) {
#ifdef NCCLWATCH_WRAPS_MPI
  DlFindObject found;
  if (!ncclwatch_find_object || ncclwatch_find_object(const_cast<void*>(caller), &found) != 0) return false;
  const char* const file = FileOf(found.map->l_name);
  return BeginsWith(file, "libmpi") || BeginsWith(file, "libopen-") || BeginsWith(file, "mca_");
#else
  static_cast<void>(caller);
  return false;
#endif
}

// _exit may be called beside a thread that keeps the loader's lock for ever: another thread opens the core, and is left
// behind if it does not come back.
const Core* OpenCoreInTime() {
  constexpr int kPatience_ms = 200;
  struct Step {
    long seconds, nanoseconds;
  } constexpr kStep{0, 1'000'000};
  static std::atomic<bool> begun{false}, done{false};
  pthread_t thread;
  const auto open = [](void*) -> void* {
    OpenCore();
    done.store(true, std::memory_order_release);
    return nullptr;
  };
  if (!pthread_create || (!begun.exchange(true) && pthread_create(&thread, nullptr, open, nullptr) != 0))
    return nullptr;
  for (int waited_ms = 0; waited_ms < kPatience_ms && !done.load(std::memory_order_acquire); ++waited_ms)
    System(SYS_nanosleep, reinterpret_cast<long>(&kStep), 0);
  return core.load(std::memory_order_acquire);
}

// ---- without the core -----------------------------------------------------------------------------------------------

int Missing() { return kNcclSystemError; }

void End(int status) {
  for (;;) System(SYS_exit_group, status);
}

bool IsOurs(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return own_span.begin != 0 && at >= own_span.begin && at < own_span.end;
}

// In the place of a libnccl that somebody opened: the real one.
void* InNccl(const char* name) {
  if (!dlopen) return nullptr;
  constexpr int kHow = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  const char* const chosen = getenv && !HasMoreRightsThanItsCaller() ? getenv("NCCLWATCH_NCCL") : nullptr;
  void* nccl = chosen && *chosen ? dlopen(chosen, kHow) : nullptr;
  if (!nccl) nccl = dlopen("libnccl.so.2", kHow);
  void* const found = nccl ? Ask(nccl, name) : nullptr;
  return IsOurs(found) ? nullptr : found;
}

void* WithoutUs(const char* name) {
  if (void* behind = Next(name)) return behind;
  return name[0] == 'n' ? InNccl(name) : nullptr;
}

}  // namespace
}  // namespace ncclwatch::shim::preload

using namespace ncclwatch::shim::preload;

// The compiler calls these two on its own.
NCCLWATCH_HIDDEN void* memcpy(void* to, const void* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
  return to;
}
NCCLWATCH_HIDDEN void* memset(void* to, int value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) static_cast<char*>(to)[i] = static_cast<char>(value);
  return to;
}

void* ncclwatch_find_dlsym() {
#if defined(__x86_64__)
  constexpr char kOldest[] = "GLIBC_2.2.5";
#else
  constexpr char kOldest[] = "GLIBC_2.17";
#endif
  // Without dl_iterate_phdr where that is possible: a program that has one of its own may ask dlsym in it.
  void* found = dlvsym ? dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34") : nullptr;
  if (!found && dlvsym) found = dlvsym(RTLD_NEXT, "dlsym", kOldest);
  if (!found) found = FindInOrder("dlsym");
  if (!found) found = reinterpret_cast<void*>(&NoDlsym);
  __atomic_store_n(&ncclwatch_real_dlsym, found, __ATOMIC_RELEASE);
  return found;
}

void* ncclwatch_function(unsigned number, const void* caller) {
  const KeepErrno keep;
  const Kind kind = kKinds[number];
  const Core* now = core.load(std::memory_order_acquire);
  if (!now && (kind == kOpens || (kind == kWaits && IsCallOfMpi(caller)))) now = OpenCore();
  if (!now && kind == kEnds && IsCallOfMpi(caller)) now = OpenCoreInTime();
  if (!now && kind == kEnds) return reinterpret_cast<void*>(&End);
  if (!now && kind == kOwn) return reinterpret_cast<void*>(&Missing);
  void* found = now ? nullptr : WithoutUs(NameOf(number));
  if (!now && !found) now = OpenCore();  // it finds what load order does not show
  if (now) return now->wrappers[number];
  if (!found) return reinterpret_cast<void*>(&Missing);
  // The core may have been opened meanwhile: its wrapper stays.
  void* asked = __atomic_load_n(&ncclwatch_slots[number], __ATOMIC_RELAXED);
  if (IsOurs(asked) || own_span.begin == 0)
    __atomic_compare_exchange_n(&ncclwatch_slots[number], &asked, found, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
  return found;
}

void* ncclwatch_answer(void* handle, const char* name) {
  const KeepErrno keep;
  if (const Core* const now = OpenCore()) return now->answer(handle, name);
  void* const found = Ask(handle, name);
  return IsOurs(found) ? WithoutUs(name) : found;
}

void* ncclwatch_answer_cuda(void* handle, const char* name, const void* caller) {
  const KeepErrno keep;
  if (const Core* const now = OpenCore()) return now->answer_cuda(handle, name, caller);
  return reinterpret_cast<void*>(~std::uintptr_t{0});
}
