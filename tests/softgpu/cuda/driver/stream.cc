#include "tests/softgpu/cuda/driver/stream.h"

#include <cuda.h>
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace softgpu {

void Mark::Complete() {
  std::lock_guard lock(mutex_);
  nanoseconds_ = std::chrono::steady_clock::now().time_since_epoch().count();
  done_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void Mark::Wait() {
  if (done()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done(); });
}

void Latch::WaitFor(int milliseconds) {
  std::unique_lock lock(mutex_);
  auto open = [this] { return open_; };
  if (milliseconds < 0) {
    changed_.wait(lock, open);
  } else {
    changed_.wait_for(lock, std::chrono::milliseconds(milliseconds), open);
  }
}

void Latch::Open() {
  std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

namespace {
uint64_t NextStreamId() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}
}  // namespace

Stream::Stream(Context* owner, unsigned stream_flags, int stream_priority, Kind stream_kind)
    : context(owner), flags(stream_flags), priority(stream_priority), kind(stream_kind), id(NextStreamId()) {}

bool Stream::blocking() const {
  return kind == Kind::kPerThread || (kind == Kind::kUser && (flags & CU_STREAM_NON_BLOCKING) == 0);
}

uint64_t Stream::Push(Work work) {
  std::unique_lock lock(mutex_);
  uint64_t sequence = submitted_.load(std::memory_order_relaxed) + 1;
  bool idle_before = completed_.load(std::memory_order_relaxed) + 1 == sequence;
  submitted_.store(sequence, std::memory_order_release);
  if (work.quick && idle_before) {
    bool free_to_run = true;
    for (const Point& point : work.after) free_to_run = free_to_run && point.stream->Reached(point.sequence);
    if (free_to_run) {
      work.run();
      Finish();
      return sequence;
    }
  }
  queue_.push_back(std::move(work));
  if (!has_thread_) StartThread();
  work_came_.notify_one();
  return sequence;
}

// With mutex_ held.
void Stream::Finish() {
  completed_.store(completed_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  work_finished_.notify_all();
}

bool Stream::Idle() {
  uint64_t last = submitted();
  if (Reached(last)) return true;
  std::lock_guard lock(mutex_);  // a quick piece of work may be between its effect and its count
  return Reached(last);
}

void Stream::Wait(uint64_t sequence) {
  if (Reached(sequence)) return;
  std::unique_lock lock(mutex_);
  work_finished_.wait(lock, [&] { return Reached(sequence); });
}

void Stream::Retire() {
  std::lock_guard lock(mutex_);
  retired_.store(true, std::memory_order_relaxed);
  work_came_.notify_one();
}

void Stream::AddLatch(const std::shared_ptr<Latch>& latch) {
  std::lock_guard lock(mutex_);
  std::erase_if(latches_, [](const auto& old) { return old.expired(); });
  latches_.push_back(latch);
}

void Stream::OpenLatches() {
  std::lock_guard lock(mutex_);
  for (const auto& weak : latches_) {
    if (auto latch = weak.lock()) latch->Open();
  }
  latches_.clear();
}

// With mutex_ held. The thread takes no signals, so that none meant for the application is handled on it, and is
// detached: a stuck stream must not keep the process from ending. But SIGBUS, of memory that has gone from under its
// file: a GPU goes on writing to the pages that were pinned for it, and no process ends by that.
void Stream::StartThread() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto* self = new std::shared_ptr<Stream>(shared_from_this());
  pthread_t thread;
  auto body = [](void* argument) -> void* {
    std::unique_ptr<std::shared_ptr<Stream>> stream(static_cast<std::shared_ptr<Stream>*>(argument));
    pthread_setname_np(pthread_self(), "softgpu-stream");
    (*stream)->RunThread();
    return nullptr;
  };
  if (pthread_create(&thread, nullptr, body, self) != 0) {
    fprintf(stderr, "softgpu: cannot start a thread for a stream\n");
    abort();
  }
  pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  has_thread_ = true;
}

void Stream::RunThread() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_came_.wait(lock, [this] { return !queue_.empty() || retired(); });
    if (queue_.empty()) break;
    {
      Work work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      for (const Point& point : work.after) point.stream->Wait(point.sequence);
      if (work.quick) {
        lock.lock();
        work.run();
        Finish();
        continue;
      }
      work.run();
    }  // what the action owns goes outside the lock, and before the work counts as finished
    lock.lock();
    Finish();
  }
  // Work pushed after this point (a handle used while it is destroyed) gets a new thread.
  has_thread_ = false;
}

}  // namespace softgpu
