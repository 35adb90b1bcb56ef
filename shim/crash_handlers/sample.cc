#include "shim/crash_handlers/sample.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ncclwatch/format/sample.h"
#include "shim/base/clock.h"
#include "shim/base/put.h"
#include "shim/base/self_memory.h"
#include "shim/black_box/box.h"
#include "shim/crash_handlers/loaded.h"
#include "shim/crash_handlers/mappings.h"
#include "shim/resolve/preload.h"
#include "watchdog/descriptors/limited_write.h"

namespace ncclwatch::shim {
namespace {

constexpr std::uint64_t kUnreadableAtFirst = 65536;  // a stack pointer may stand this far below the stack's memory
constexpr std::uint64_t kHead = kSmallestPage;       // of the sample: header and thread
static_assert(sizeof(format::SampleHeader) + sizeof(format::SampledThread) <= kHead);

// Static: an alternate stack may have 8 KiB in all.
struct Head {
  format::SampleHeader header;
  format::SampledThread thread;
} head;
std::uint64_t device = 0;  // of the box's file
std::uint32_t stack_bytes = 0;
std::uint64_t main_stack_end = 0;
MappingFilter mappings;
char piece[4096];
bool replaceable = false;  // the sample behind the box is of a signal that the application handled

// Names that stand in the strings already: a program that lives with its signals must not fill them.
struct Named {
  std::uint64_t begin;
  std::uint32_t name;
};
constexpr int kNamed = 16;
Named named[kNamed];
int named_used = 0;
char path[512];

std::uint32_t NameOf(Box& box, const Loaded& module) {
  for (int i = 0; i < named_used; ++i)
    if (named[i].begin == module.begin) return named[i].name;
  PathOf(module, path, sizeof path);
  const std::uint32_t name = path[0] ? AddString(box, path) : 0;
  if (named_used < kNamed) named[named_used++] = {module.begin, name};
  return name;
}

// By the kernel, which copies from memory that may be missing without a fault, and writes to a file that may be full
// without a SIGBUS. Raw, past the checks of sanitizers: the bytes belong to others. The bytes written, 0 if none.
std::uint64_t WriteAt(int fd, const void* from, std::uint64_t bytes, std::uint64_t offset) {
  const long written = syscall(SYS_pwrite64, fd, from, bytes, offset);
  return written > 0 ? static_cast<std::uint64_t>(written) : 0;
}

void CopyRegisters(const ucontext_t& context, format::SampledThread* thread) {
#if defined(__x86_64__)
  constexpr int kOrder[16] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  for (unsigned i = 0; i < 16; ++i)
    thread->registers[i] = static_cast<std::uint64_t>(context.uc_mcontext.gregs[kOrder[i]]);
  thread->pc = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RIP]);
  thread->known = (1u << 16) - 1;
  head.header.machine = EM_X86_64;
#elif defined(__aarch64__)
  for (unsigned i = 0; i < 31; ++i) thread->registers[i] = context.uc_mcontext.regs[i];
  thread->registers[31] = context.uc_mcontext.sp;
  thread->pc = context.uc_mcontext.pc;
  thread->known = (std::uint64_t{1} << 32) - 1;
  head.header.machine = EM_AARCH64;
#else
#error "registers of this processor are not known"
#endif
}

// From the stack pointer up, page by page: what cannot be read ends it, but for pages at the beginning, which a thread
// that has overflowed its stack does not have.
void AppendStack(const Box& box, std::uint64_t stack, std::uint64_t offset, format::SampledThread* thread) {
  std::uint64_t at = stack > kRedZone ? (stack - kRedZone) & ~std::uint64_t{15} : stack;
  const std::uint64_t give_up = at + kUnreadableAtFirst;
  std::uint64_t used = 0;
  while (used < stack_bytes) {
    const std::uint64_t page_end = (at / kSmallestPage + 1) * kSmallestPage;
    if (page_end < at) return;
    std::uint64_t bytes = std::min(page_end - at, stack_bytes - used);
    if (at < main_stack_end) bytes = std::min(bytes, main_stack_end - at);
    errno = 0;
    const std::uint64_t written = WriteAt(box.fd, reinterpret_cast<const void*>(at), bytes, offset + used);
    if (written == 0 && used == 0 && errno == EFAULT && page_end < give_up) {
      at = page_end;
      continue;
    }
    if (written == 0) return;
    if (used == 0) thread->stack_address = at;
    used += written;
    thread->stack_bytes = static_cast<std::uint32_t>(used);
    if (written < bytes || at + written == main_stack_end) return;
    at = page_end;
  }
}

// Where a process that ends has used up its descriptors, its limit is raised for a moment. A process that handles the
// signal may live on: its limit stays.
int OpenMaps(bool ends) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC;
  const auto open = [] { return static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", kFlags)); };
  int fd = open();
  rlimit limit{};
  if (fd >= 0 || !ends || errno != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
    return fd;
  const rlimit more{limit.rlim_cur + 1, limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &more);
  fd = open();
  setrlimit(RLIMIT_NOFILE, &limit);
  return fd;
}

// The bytes appended.
std::uint64_t AppendMaps(const Box& box, std::uint64_t offset, bool ends) {
  constexpr std::uint64_t kMostRead = 16 << 20;
  const int fd = OpenMaps(ends);
  if (fd < 0) return 0;
  std::uint64_t used = 0;
  const auto append = [&](const char* line, std::size_t bytes) {
    if (used + bytes > format::kMostSampledMaps) return false;
    const std::uint64_t written = WriteAt(box.fd, line, bytes, offset + used);
    if (written == bytes) used += bytes;
    return written == bytes;
  };
  mappings.Begin();
  for (std::uint64_t read = 0; read < kMostRead;) {
    const long got = syscall(SYS_read, fd, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || !mappings.Take(piece, static_cast<std::size_t>(got), append)) break;
    read += static_cast<std::uint64_t>(got);
  }
  syscall(SYS_close, fd);
  return used;
}

// The host may have closed the descriptor, and its number be another file's by now.
bool IsBox(const Box& box, const struct stat& file) { return file.st_ino == box.inode && file.st_dev == device; }

// A limit on the size of files would send SIGXFSZ. One sample a process: a thread that dies at the same time leaves its
// words alone.
bool MayAppend(const Box& box, std::uint64_t most) {
  struct stat file {};
  return fstat(box.fd, &file) == 0 && IsBox(box, file) && static_cast<std::uint64_t>(file.st_size) == box.file_bytes &&
         static_cast<std::uint64_t>(descriptors::FileSizeLimit()) >= box.file_bytes + most;
}

void FillHeader(const Box& box, const format::FatalSignal& entry) {
  const format::Identity& self = box.header->identity;
  format::SampleHeader& header = head.header;
  std::memcpy(header.magic, format::kSampleMagic, sizeof header.magic);
  header.version = format::kSampleVersion;
  header.at_ns = entry.at_ns;
  header.at_real_ns = clock::Nanoseconds(CLOCK_REALTIME);
  header.start_time = self.start_time;
  header.pid = self.pid;
  header.rank = self.rank;
  header.matters = entry.thread;
  header.threads = 1;
  std::memcpy(header.host, self.host, sizeof header.host);
  head.thread.thread = entry.thread;
  head.thread.state = static_cast<std::uint32_t>(format::Sampled::kWhole);
  std::memcpy(head.thread.name, entry.thread_name, sizeof head.thread.name);
}

}  // namespace

void PrepareSample(const Box& box, std::uint32_t bytes) {
  struct stat file {};
  stack_bytes = fstat(box.fd, &file) == 0 ? bytes : 0;
  device = file.st_dev;
  const auto* end = static_cast<const std::uint64_t*>(resolve::Dlsym(RTLD_DEFAULT, "__libc_stack_end"));
  main_stack_end = end ? *end : 0;
  named_used = 0;  // in a fork child they were another box's
  replaceable = false;
}

std::uint64_t MainStackEnd() { return main_stack_end; }

std::uint64_t StackPointerOf(const ucontext_t& context) {
#if defined(__x86_64__)
  return static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RSP]);
#else
  return context.uc_mcontext.sp;
#endif
}

void WritePlace(Box& box, const ucontext_t& context, format::FatalSignal* entry) {
#if defined(__x86_64__)
  const auto pc = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RIP]);
#else
  const std::uint64_t pc = context.uc_mcontext.pc;
#endif
  Loaded module;
  const bool known = FindLoaded(pc, &module);
  Put(entry->frame[0].address, pc);
  Put(entry->frame[0].offset, known ? pc - module.bias : 0);
  Put(entry->frame[0].module, known ? NameOf(box, module) : 0);
  Put(entry->frames, 1u);
}

void DropReplaceableSample(const Box& box) {
  if (!replaceable) return;
  replaceable = false;
  struct stat file {};
  if (fstat(box.fd, &file) == 0 && IsBox(box, file)) syscall(SYS_ftruncate, box.fd, box.file_bytes);
}

bool AppendSample(const Box& box, const ucontext_t& context, const format::FatalSignal& entry) {
  if (stack_bytes == 0) return false;
  const std::uint64_t most = kHead + format::kMostSampledMaps + stack_bytes;
  DropReplaceableSample(box);
  if (!MayAppend(box, most)) return false;
  replaceable = (entry.flags & format::kSignalHandled) != 0;
  head = {};
  CopyRegisters(context, &head.thread);
  FillHeader(box, entry);
  const std::uint64_t begin = box.file_bytes;
  head.header.maps_offset = kHead;
  head.header.maps_bytes = AppendMaps(box, begin + kHead, !replaceable);
  const std::uint64_t stack = kHead + (head.header.maps_bytes + kSmallestPage - 1) / kSmallestPage * kSmallestPage;
  head.thread.stack_offset = stack;
  AppendStack(box, StackPointerOf(context), begin + stack, &head.thread);
  head.header.bytes = stack + head.thread.stack_bytes;
  return head.header.maps_bytes != 0 && head.thread.stack_bytes != 0 &&
         WriteAt(box.fd, &head, sizeof head, begin) == sizeof head;
}

}  // namespace ncclwatch::shim
