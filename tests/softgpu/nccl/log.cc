#include "log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "comm.h"
#include "group.h"

namespace softgpu {
namespace {

thread_local int api_depth = 0;

uint64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

const char* LogDirectory() {
  static const char* directory = [] {
    const char* value = getenv("SOFTGPU_NCCL_LOG");
    return value && *value ? value : nullptr;
  }();
  return directory;
}

// The log of this process; a forked child opens its own. No lock: it could be held at a fork by a thread that the child
// does not have.
std::atomic<int> log_file{-1};
std::atomic<uint64_t> next_number{0};

const int log_follows_forks = pthread_atfork(nullptr, nullptr, [] {
  const int parents = log_file.exchange(-1);
  if (parents >= 0) close(parents);
  next_number.store(0);
});

int LogFile() {
  const int opened = log_file.load(std::memory_order_acquire);
  if (opened >= 0) return opened;
  mkdir(LogDirectory(), 0777);
  const std::string path = std::string(LogDirectory()) + "/" + std::to_string(getpid()) + ".jsonl";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  int first = -1;
  if (log_file.compare_exchange_strong(first, file)) return file;
  close(file);
  return first;
}

std::string Pointer(const void* value) {
  char text[32];
  std::snprintf(text, sizeof text, "\"0x%" PRIxPTR "\"", reinterpret_cast<uintptr_t>(value));
  return text;
}

}  // namespace

ApiCall::ApiCall(const char* function) : logged_(api_depth++ == 0 && LogDirectory()), function_(function) {
  if (!logged_) return;
  number_ = next_number.fetch_add(1);
  entered_ = Now();
  depth_ = GroupDepth();
}

ApiCall::~ApiCall() { --api_depth; }

ApiCall& ApiCall::Comm(ncclComm* comm) {
  if (!logged_ || !comm || comm->magic != kCommMagic) return *this;
  char text[160];
  std::snprintf(text, sizeof text,
                ",\"comm\":\"%016" PRIx64 "\",\"index\":%" PRIu64 ",\"handle\":%s,\"rank\":%d,\"nranks\":%d",
                comm->identity.high, comm->index, Pointer(comm).c_str(), comm->rank, comm->nranks);
  comm_ = text;
  return *this;
}

void ApiCall::Add(const char* key, int64_t value) {
  if (logged_) fields_ += std::string(",\"") + key + "\":" + std::to_string(value);
}

void ApiCall::AddPointer(const char* key, const void* value) {
  if (logged_) fields_ += std::string(",\"") + key + "\":" + Pointer(value);
}

ApiCall& ApiCall::Data(size_t count, int datatype, const void* send, const void* receive) {
  if (!logged_) return *this;
  fields_ += ",\"count\":" + std::to_string(count);
  Add("dtype", datatype);
  if (send) AddPointer("send", send);
  if (receive) AddPointer("recv", receive);
  return *this;
}

ApiCall& ApiCall::Red(int op) {
  Add("red", op);
  return *this;
}

ApiCall& ApiCall::Root(int root) {
  Add("root", root);
  return *this;
}

ApiCall& ApiCall::Peer(int peer) {
  Add("peer", peer);
  return *this;
}

ApiCall& ApiCall::Stream(const void* stream) {
  AddPointer("stream", stream);
  return *this;
}

ApiCall& ApiCall::Extra(const char* key, int64_t value) {
  if (logged_) extra_ += (extra_.empty() ? "\"" : ",\"") + std::string(key) + "\":" + std::to_string(value);
  return *this;
}

ApiCall& ApiCall::Enter() {
  if (logged_) Write("enter", "");
  return *this;
}

ncclResult_t ApiCall::Done(ncclResult_t result) {
  if (!logged_) return result;
  char tail[64];
  std::snprintf(tail, sizeof tail, ",\"t1\":%" PRIu64 ",\"result\":%d", Now(), static_cast<int>(result));
  Write("call", tail);
  return result;
}

void ApiCall::DoneWithoutResult() {
  if (!logged_) return;
  char tail[64];
  std::snprintf(tail, sizeof tail, ",\"t1\":%" PRIu64 ",\"result\":null", Now());
  Write("call", tail);
}

void ApiCall::Write(const char* event, const char* tail) {
  char head[200];
  std::snprintf(head, sizeof head,
                "{\"event\":\"%s\",\"n\":%" PRIu64 ",\"tid\":%ld,\"t0\":%" PRIu64 ",\"fn\":\"%s\",\"depth\":%d", event,
                number_, syscall(SYS_gettid), entered_, function_, depth_);
  std::string line = head;
  line += comm_.empty() ? ",\"comm\":null" : comm_;
  line += fields_;
  for (const char* key : {"count", "dtype", "red", "root", "peer", "stream", "send", "recv"}) {
    const std::string quoted = std::string("\"") + key + "\":";
    if (fields_.find(quoted) == std::string::npos) line += "," + quoted + "null";
  }
  if (!extra_.empty()) line += ",\"extra\":{" + extra_ + "}";
  line += tail;
  line += "}\n";
  // O_APPEND makes one write one line whatever other threads do; a full disk loses lines, never the program.
  if (write(LogFile(), line.data(), line.size()) < 0) return;
}

KernelLine::KernelLine() {
  static const bool wanted = LogDirectory() && getenv("SOFTGPU_NCCL_LOG_KERNELS");
  if (wanted) began_ = Now();
}

void KernelLine::Write(const ncclComm& comm, const profiler::Task& task) const {
  if (began_ == 0) return;
  char line[320];
  const int size = std::snprintf(
      line, sizeof line,
      "{\"event\":\"kernel\",\"fn\":\"%s\",\"comm\":\"%016" PRIx64
      "\",\"rank\":%d,\"nranks\":%d,\"count\":%zu,\"dtype\":%d,\"root\":%d,\"t0\":%" PRIu64 ",\"t1\":%" PRIu64 "}\n",
      task.function, comm.identity.high, comm.rank, comm.nranks, task.count, task.datatype, task.root, began_, Now());
  if (write(LogFile(), line, static_cast<size_t>(size)) < 0) return;
}

}  // namespace softgpu
