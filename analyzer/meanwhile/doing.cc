#include "analyzer/meanwhile/doing.h"

#include <absl/strings/ascii.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "analyzer/stacks/show/fold.h"

namespace ncclwatch::meanwhile {
namespace {

using reader::Doing;
using stacks::Frame;
using stacks::OpenFile;

constexpr int kStandardError = 2;

// Part of a Python file's path.
constexpr std::array<std::string_view, 4> kLoaderFiles = {"torch/utils/data/", "nvidia/dali/",
                                                          "tensorflow/python/data/", "webdataset/"};
constexpr std::array<std::string_view, 5> kCheckpointFiles = {"torch/distributed/checkpoint/", "safetensors/",
                                                              "megatron/core/dist_checkpointing/",
                                                              "deepspeed/runtime/checkpoint_engine/", "orbax/"};
// The beginning of a native function's name, without "P" before MPI's.
constexpr std::array<std::string_view, 2> kLoaderFunctions = {"torch::data::", "dali::"};
constexpr std::array<std::string_view, 3> kCheckpointFunctions = {"MPI_File_write", "H5Dwrite", "H5Fflush"};
constexpr std::array<std::string_view, 2> kFileReaders = {"MPI_File_read", "H5Dread"};

constexpr std::array<std::string_view, 10> kReads = {"read",     "readv",   "pread64", "preadv",  "preadv2",
                                                     "recvfrom", "recvmsg", "accept",  "accept4", "recvmmsg"};
constexpr std::array<std::string_view, 15> kWrites = {
    "write", "writev",    "pwrite64",  "pwritev", "pwritev2", "sendto",          "sendmsg",  "sendmmsg",
    "fsync", "fdatasync", "ftruncate", "syncfs",  "sendfile", "sync_file_range", "fallocate"};
constexpr std::array<std::string_view, 6> kOnDescriptors = {"close", "fstat", "getdents64", "flock", "lseek", "ioctl"};
constexpr std::array<std::string_view, 9> kFirstPaths = {"open",  "stat",   "lstat", "access",  "unlink",
                                                         "mkdir", "rename", "rmdir", "truncate"};
constexpr std::array<std::string_view, 9> kSecondPaths = {
    "openat", "newfstatat", "statx", "faccessat", "unlinkat", "faccessat2", "mkdirat", "renameat2", "openat2"};
constexpr std::array<std::string_view, 8> kManyWaits = {"poll",       "ppoll",       "select",       "pselect6",
                                                        "epoll_wait", "epoll_pwait", "epoll_pwait2", "connect"};

bool Among(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
bool BeginsWithOne(const auto& beginnings, std::string_view name) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](auto one) { return name.starts_with(one); });
}
bool HasOne(const auto& parts, const std::string& text) {
  return std::any_of(parts.begin(), parts.end(), [&](auto one) { return text.find(one) != std::string::npos; });
}

// "save_checkpoint", "Trainer._save_checkpoint", "SaveCheckpoint(int)". Not activation checkpointing, which saves none.
bool SavesByName(const std::string& function) {
  const std::string name = absl::AsciiStrToLower(function);
  return name.find("checkpoint") != std::string::npos &&
         (name.find("save") != std::string::npos || name.find("write") != std::string::npos);
}

bool IsCheckpoint(const Frame& frame, std::string_view function) {
  if (SavesByName(frame.function)) return true;
  if (frame.kind != Frame::Kind::kPython) return BeginsWithOne(kCheckpointFunctions, function);
  const bool torch_save =
      frame.file.ends_with("torch/serialization.py") && frame.function.find("save") != std::string::npos;
  return torch_save || HasOne(kCheckpointFiles, frame.file);
}

bool IsInput(const Frame& frame, std::string_view function) {
  if (frame.kind == Frame::Kind::kPython) return HasOne(kLoaderFiles, frame.file);
  return BeginsWithOne(kLoaderFunctions, function) || BeginsWithOne(kFileReaders, function);
}

std::optional<Doing> ByFrame(const Frame& frame) {
  std::string_view function = frame.function;
  if (function.starts_with("PMPI_")) function.remove_prefix(1);
  if (IsCheckpoint(frame, function)) return Doing::kCheckpoint;
  if (IsInput(frame, function)) return Doing::kInput;
  if (frame.kind != Frame::Kind::kNative) return std::nullopt;
  if (frame.module.starts_with("libcuda")) return Doing::kGpu;  // libcudart too
  const bool call = function.starts_with("MPI_") || function.starts_with("nccl");
  return call ? std::optional(Doing::kCall) : std::nullopt;
}

// A checkpoint that is written by a data loader's function is a checkpoint.
std::optional<Doing> ByFrames(const std::vector<Frame>& frames) {
  for (const Doing wanted : {Doing::kCheckpoint, Doing::kInput, Doing::kGpu, Doing::kCall})
    if (std::any_of(frames.begin(), frames.end(), [&](const Frame& frame) { return ByFrame(frame) == wanted; }))
      return wanted;
  return std::nullopt;
}

Doing OnDescriptor(const Seen& seen) {
  const bool writes = Among(kWrites, seen.call);
  switch (seen.file.kind) {
    case OpenFile::Kind::kSocket: return Doing::kNetwork;
    case OpenFile::Kind::kPipe: return writes ? Doing::kOther : Doing::kInput;
    case OpenFile::Kind::kFile: break;
    case OpenFile::Kind::kNone:
    case OpenFile::Kind::kOther: return Doing::kOther;
  }
  if (Among(kReads, seen.call)) return Doing::kInput;
  return writes && seen.descriptor > kStandardError ? Doing::kCheckpoint : Doing::kFileSystem;
}

// It sleeps in no system call. What the kernel is in is known where we may read it.
Doing InPageFault(const stacks::Thread& thread) {
  const std::string& kernel = thread.waits_on;
  const bool of_file = kernel.find("filemap") != std::string::npos || kernel.find("read_folio") != std::string::npos;
  return of_file ? Doing::kInput : Doing::kPaging;
}

Doing BySystemCall(const Seen& seen) {
  if (seen.running) return Doing::kRunning;
  if (seen.call.empty()) return seen.thread->state == 'D' ? InPageFault(*seen.thread) : Doing::kOther;
  if (seen.call == "futex") return Doing::kLock;
  if (seen.call.ends_with("nanosleep")) return Doing::kAsleep;
  switch (ArgumentOf(seen.call)) {
    case Argument::kDescriptor: return OnDescriptor(seen);
    case Argument::kFirstPath:
    case Argument::kSecondPath: return Doing::kFileSystem;
    case Argument::kNone: break;
  }
  return Among(kManyWaits, seen.call) ? Doing::kNetwork : Doing::kOther;
}

std::string WordsOf(const Seen& seen) {
  const stacks::Thread& thread = *seen.thread;
  if (seen.running) return "";
  if (seen.call.empty()) return thread.state == 'D' ? "in a page fault" : "";
  std::string words = "in " + seen.call;
  if (const std::string file = Text(seen.file); !file.empty()) return words + " of " + file;
  if (!seen.path.empty()) return words + " of " + seen.path;
  if (!thread.call.empty()) words = "in " + thread.call;
  return thread.waits_on.empty() ? words : words + "; " + thread.waits_on;
}

}  // namespace

Argument ArgumentOf(const std::string& call) {
  if (Among(kReads, call) || Among(kWrites, call) || Among(kOnDescriptors, call)) return Argument::kDescriptor;
  if (Among(kFirstPaths, call)) return Argument::kFirstPath;
  return Among(kSecondPaths, call) ? Argument::kSecondPath : Argument::kNone;
}

Activity ActivityOf(const Seen& seen) {
  const char state = seen.thread->state;
  if (state == 'T' || state == 't') return {Doing::kStopped, ""};
  return {ByFrames(seen.thread->frames).value_or(BySystemCall(seen)), WordsOf(seen)};
}

}  // namespace ncclwatch::meanwhile
