#include "shim/black_box/box.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "core/reader/guard.h"
#include "ncclwatch/format/payload.h"
#include "ncclwatch/format/python_site.h"
#include "shim/base/clock.h"
#include "shim/resolve/libraries.h"
#include "watchdog/descriptors/directory.h"
#include "watchdog/descriptors/limited_write.h"

namespace ncclwatch::shim {
namespace {

constexpr int kLockPatience = 10000;  // yields

std::uint64_t Pages(std::uint64_t bytes) { return (bytes + format::kPage - 1) / format::kPage * format::kPage; }

struct Layout {
  std::uint64_t bytes = format::kPage;
  // behind: bytes of what lies in the section too, on the page behind its entries.
  format::Section Add(std::uint32_t count, std::uint32_t entry_bytes, std::uint64_t behind = 0) {
    const std::uint64_t own = std::uint64_t{count} * entry_bytes;
    const format::Section section{bytes, behind == 0 ? own : Pages(own) + behind, count, entry_bytes};
    bytes += Pages(section.bytes);
    return section;
  }
};

struct Sections {
  format::Section communicators, ring, peers, observations, words, parts, notes, strings;
  std::uint64_t bytes;
};

Sections Plan(const BoxPlan& plan) {
  Layout layout;
  Sections sections{};
  sections.communicators = layout.Add(plan.communicators, sizeof(format::Communicator));
  sections.ring = layout.Add(plan.ring, sizeof(format::Record));
  sections.peers = layout.Add(format::kPeerCapacity, sizeof(format::Peer));
  sections.observations = layout.Add(format::kObservationCapacity, sizeof(format::Observation));
  sections.words = layout.Add(1, format::kWordsBytes);
  sections.parts = layout.Add(format::kPartCapacity, sizeof(format::Part));
  sections.notes =
      layout.Add(format::kNoteCapacity, sizeof(format::Note), Pages(sizeof(format::Events)) + sizeof(format::Payloads));
  sections.strings = layout.Add(format::kStringBytes, 1, plan.python_sites ? sizeof(format::PythonSites) : 0);
  sections.bytes = layout.bytes;
  return sections;
}

// The file while it is being made: gone again unless kept.
class Draft {
 public:
  Draft(const BoxPlan& plan, std::string name)
      : directory_(descriptors::Directory::Own(plan.directory)), name_(std::move(name)) {}
  ~Draft() {
    if (memory != MAP_FAILED) munmap(memory, bytes);
    if (fd >= 0) close(fd);
    if (fd >= 0) directory_.Unlink(name_);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  void Keep() {
    memory = MAP_FAILED;
    fd = -1;
  }
  std::string path() const { return directory_.PathOf(name_); }
  const descriptors::Directory& directory() const { return directory_; }
  const std::string& name() const { return name_; }

  int fd = -1;
  void* memory = MAP_FAILED;
  std::uint64_t bytes = 0;

 private:
  descriptors::Directory directory_;
  std::string name_;
};

std::string DraftName(const BoxPlan& plan) { return "." + plan.name + ".new"; }

BoxFailure Because(const std::string& what, const std::string& path, int error) {
  return {what + " " + path + ": " + std::strerror(error)};
}

// An empty string, or why not.
std::string Allocate(Draft& draft) {
  if (!draft.directory()) return draft.directory().reason();
  draft.fd = draft.directory().Open(draft.name(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (draft.fd < 0) return Because("cannot create", draft.path(), errno).reason;
  // Never sparse: a write to a page that the file system cannot give would be a SIGBUS in the host.
  if (const int error = descriptors::Allocate(draft.fd, draft.bytes); error != 0)
    return Because("no room for", draft.path(), error).reason;
  draft.memory = mmap(nullptr, draft.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, draft.fd, 0);
  if (draft.memory == MAP_FAILED) return Because("cannot map", draft.path(), errno).reason;
  madvise(draft.memory, draft.bytes, MADV_DONTFORK);
  return {};
}

void FillHeader(format::Header& header, const BoxPlan& plan, const Sections& sections) {
  std::memcpy(header.magic, format::kMagic, sizeof header.magic);
  header.version = format::kVersion;
  header.endian_mark = format::kEndianMark;
  header.header_bytes = sizeof(format::Header);
  header.file_bytes = sections.bytes;
  header.communicators = sections.communicators;
  header.ring = sections.ring;
  header.peers = sections.peers;
  header.observations = sections.observations;
  header.words = sections.words;
  header.parts = sections.parts;
  header.notes = sections.notes;
  header.strings = sections.strings;
  header.identity = plan.identity;
  header.strings_used.store(1, std::memory_order_relaxed);  // offset 0 means none
  header.watching.store(1, std::memory_order_relaxed);
  header.heartbeat_ns.store(clock::Nanoseconds(CLOCK_MONOTONIC), std::memory_order_relaxed);
  header.state.store(static_cast<std::uint32_t>(format::ProcessState::kRunning), std::memory_order_release);
}

bool Lock(int fd) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  whole.l_start = 0;
  whole.l_len = 1;
  return fcntl(fd, F_SETLK, &whole) == 0;
}

// Private memory of the process: in a fork child it is an unused copy. Zeroes, and no page more than is touched.
template <class T>
T* NewMemory(std::uint64_t number) {
  void* memory =
      mmap(nullptr, number * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<T*>(memory);
}

// Null: no memory.
Box* NewBox(std::uint32_t capacity) {
  auto* memory = NewMemory<Box>(1);
  auto* privates = NewMemory<Private>(capacity);
  auto* handles = NewMemory<HandleTable::Slot>(HandleTable::kCapacity);
  auto* ended = NewMemory<HandleTable::Slot>(HandleTable::kCapacity);
  if (!memory || !privates || !handles || !ended) return nullptr;
  Box* box = new (memory) Box(handles, ended);
  box->capacity = capacity;
  box->privates = privates;
  for (std::uint32_t i = 0; i < capacity; ++i) new (&privates[i]) Private;
  return box;
}

}  // namespace

WriterLock::WriterLock(Box& box) : box_(box) {
  for (int i = 0; i < kLockPatience; ++i) {
    held_ = !box_.writer.test_and_set(std::memory_order_acquire);
    if (held_) return;
    sched_yield();
  }
}

WriterLock::~WriterLock() {
  if (held_) box_.writer.clear(std::memory_order_release);
}

std::uint64_t BoxBytes(const BoxPlan& plan) { return Plan(plan).bytes; }

std::variant<Box*, BoxFailure> MakeBox(const BoxPlan& plan) {
  const clock::Reading first = clock::Read();
  const Sections sections = Plan(plan);
  Draft draft(plan, DraftName(plan));
  draft.bytes = sections.bytes;
  if (std::string reason = Allocate(draft); !reason.empty()) return BoxFailure{reason};
  // The lock comes after the last close of a descriptor of this file, and before the file can be found.
  if (!Lock(draft.fd)) return Because("cannot lock", draft.path(), errno);
  struct stat file {};
  if (fstat(draft.fd, &file) != 0) return Because("cannot look at", draft.path(), errno);

  Box* box = NewBox(plan.communicators);
  if (!box) return BoxFailure{"no memory"};
  char* base = static_cast<char*>(draft.memory);
  box->header = reinterpret_cast<format::Header*>(base);
  box->ring = reinterpret_cast<format::Record*>(base + sections.ring.offset);
  box->mask = plan.ring - 1;
  box->communicators = reinterpret_cast<format::Communicator*>(base + sections.communicators.offset);
  box->peers = reinterpret_cast<format::Peer*>(base + sections.peers.offset);
  box->words = reinterpret_cast<format::Words*>(base + sections.words.offset);
  box->parts = reinterpret_cast<format::Part*>(base + sections.parts.offset);
  box->notes = reinterpret_cast<format::Note*>(base + sections.notes.offset);
  box->strings = base + sections.strings.offset;
  box->file_bytes = sections.bytes;
  box->fd = draft.fd;
  box->inode = file.st_ino;
  box->guard = reader::guard::Enroll(draft.memory, draft.bytes, PROT_READ | PROT_WRITE);
  box->pid = plan.identity.pid;
  FillHeader(*box->header, plan, sections);
  clock::Anchor(box->header->clock, first);
  draft.Keep();
  return box;
}

std::string PublishBox(const Box& box, const BoxPlan& plan) {
  const descriptors::Directory directory = descriptors::Directory::Own(plan.directory);
  if (directory.Rename(DraftName(plan), plan.name)) return {};
  std::string reason = Because("cannot name", directory.PathOf(plan.name), errno).reason;
  AbandonBox(box, plan);
  return reason;
}

void AbandonBox(const Box& box, const BoxPlan& plan) {
  descriptors::Directory::Own(plan.directory).Unlink(DraftName(plan));
  close(box.fd);
}

std::uint32_t AddString(Box& box, const char* text) {
  const std::uint32_t bytes = static_cast<std::uint32_t>(strnlen(text, format::kPage)) + 1;
  const std::uint32_t at = box.header->strings_used.fetch_add(bytes, std::memory_order_relaxed);
  if (at + bytes > format::kStringBytes) {
    box.header->strings_used.fetch_sub(bytes, std::memory_order_relaxed);
    return 0;
  }
  std::memcpy(box.strings + at, text, bytes - 1);
  return at;
}

void NoteLibrary(Box& box, std::uint32_t library) {
  if (box.library == library) return;
  int version = 0;
  const char* path = resolve::libraries[library].path;
  if (!resolve::Version(library, &version)) version = 0;
  box.library = library;
  const std::uint32_t text = path[0] ? AddString(box, path) : 0;
  std::atomic_ref(box.header->nccl_version).store(static_cast<std::uint32_t>(version), std::memory_order_relaxed);
  // Pairs with the readers' acquire: who sees the offset sees the text.
  std::atomic_ref(box.header->nccl_library).store(text, std::memory_order_release);
}

}  // namespace ncclwatch::shim
