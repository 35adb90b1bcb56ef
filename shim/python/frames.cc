#include "shim/python/frames.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <optional>

namespace ncclwatch::shim::pyframes {
namespace {

using cpython::Layout;

constexpr int kMostStates = 4096;  // interpreters, threads of one

std::optional<std::uint64_t> Pointer(OwnMemory* memory, std::uint64_t base, const Layout& layout,
                                     cpython::Field field) {
  return memory->Value<std::uint64_t>(base + static_cast<std::uint64_t>(layout[field]));
}

// The last state of the list, which is the oldest, unless another one has the main thread's number.
std::uint64_t MainThreadOf(OwnMemory* memory, const Layout& layout, std::uint64_t interpreter) {
  std::uint64_t last = 0;
  auto thread = Pointer(memory, interpreter, layout, cpython::kInterpreterThreads);
  for (int i = 0; thread && *thread != 0 && i < kMostStates; ++i) {
    last = *thread;
    if (layout.Has(cpython::kThreadNativeId)) {
      const auto id = Pointer(memory, last, layout, cpython::kThreadNativeId);
      if (id && *id == static_cast<std::uint64_t>(getpid())) break;
    }
    thread = Pointer(memory, last, layout, cpython::kThreadNext);
  }
  return last;
}

std::uint32_t BytesOf(const Layout& layout, std::initializer_list<cpython::Field> fields) {
  std::int32_t last = 0;
  for (const cpython::Field field : fields) last = std::max(last, layout[field]);
  return static_cast<std::uint32_t>(last) + sizeof(std::uint64_t);
}

}  // namespace

void SetSizes(Interpreter* python) {
  using namespace cpython;
  python->frame_bytes =
      BytesOf(python->layout, {kFramePrevious, kFrameCode, kFrameInstruction, kFrameOwner, kFrameCodeCopy});
  python->code_bytes =
      BytesOf(python->layout, {kObjectType, kCodeFile, kCodeName, kCodeQualifiedName, kCodeLines, kCodeFirstLine});
}

bool OwnMemory::Read(std::uint64_t address, void* to, std::size_t bytes) { return ReadSelf(address, to, bytes); }

std::uint64_t MainThread(const Interpreter& python) {
  OwnMemory memory;
  const Layout& layout = python.layout;
  auto interpreter = Pointer(&memory, python.runtime, layout, cpython::kInterpreters);
  for (int i = 0; interpreter && *interpreter != 0 && i < kMostStates; ++i) {
    const auto id = Pointer(&memory, *interpreter, layout, cpython::kInterpreterId);
    if (id == 0) return MainThreadOf(&memory, layout, *interpreter);
    interpreter = Pointer(&memory, *interpreter, layout, cpython::kInterpreterNext);
  }
  return 0;
}

void Trail::Add(std::uint64_t address, const char* content, std::size_t bytes) {
  if (pieces_ >= kPieces || bytes > kBytes - bytes_) {
    pieces_ = kPieces + 1;
    return;
  }
  address_[pieces_] = address;
  size_[pieces_++] = bytes;
  std::memcpy(content_ + bytes_, content, bytes);
  bytes_ += bytes;
}

bool Trail::IsUnchanged() const {
  if (pieces_ == 0 || pieces_ > kPieces) return false;
  iovec remote[kPieces];
  for (std::size_t i = 0; i < pieces_; ++i) remote[i] = {reinterpret_cast<void*>(address_[i]), size_[i]};
  char now[kBytes];
  const iovec local{now, bytes_};
  const long copied = syscall(SYS_process_vm_readv, syscall(SYS_getpid), &local, 1, remote, pieces_, 0);
  if (copied >= 0 || errno == EFAULT)
    return copied == static_cast<long>(bytes_) && std::memcmp(now, content_, bytes_) == 0;
  // Older containers forbid that call.
  std::size_t at = 0;
  for (std::size_t i = 0; i < pieces_; at += size_[i++])
    if (!ReadSelf(address_[i], now, size_[i]) || std::memcmp(now, content_ + at, size_[i]) != 0) return false;
  return true;
}

}  // namespace ncclwatch::shim::pyframes
