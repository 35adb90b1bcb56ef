// Streams: a queue of work that runs in order on a thread of its own, made when work first has to wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace softgpu {

class Capture;
class Context;
class Stream;
struct Node;

using Action = std::function<void()>;  // may run several times, one run at a time

// Something that happens once, and when. Thread-safe.
class Mark {
 public:
  void Complete();
  bool done() const { return done_.load(std::memory_order_acquire); }
  void Wait();
  int64_t nanoseconds() const { return nanoseconds_; }  // steady clock; only after done()

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> done_{false};  // release in Complete publishes nanoseconds_
  int64_t nanoseconds_ = 0;
};

// A place in a stream: reached when the first `sequence` pieces of its work have finished.
struct Point {
  std::shared_ptr<Stream> stream;
  uint64_t sequence;
};

struct Work {
  Action run;
  std::vector<Point> after;  // waited for before it runs
  // Short and never blocking: run by the caller itself if the stream is idle, which spares a thread switch, and always
  // with the stream's mutex held, in one with its being counted as finished: who has seen its effect (an event that is
  // complete) finds the stream that far.
  bool quick = false;
};

// Ends stalls. Thread-safe.
class Latch {
 public:
  void WaitFor(int milliseconds);  // -1: until Open
  void Open();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  enum class Kind { kUser, kLegacy, kPerThread, kInternal };

  Stream(Context* context, unsigned flags, int priority, Kind kind);

  // Does not order against the legacy stream: that is Enqueue's work (submit.h). Returns the work's sequence.
  uint64_t Push(Work work);

  uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
  bool Reached(uint64_t sequence) const { return completed_.load(std::memory_order_acquire) >= sequence; }
  uint64_t unfinished() const {
    uint64_t completed = completed_.load(std::memory_order_acquire);  // first: it never passes submitted_
    return submitted() - completed;
  }
  bool Idle();
  void Wait(uint64_t sequence);

  // No more work will come; the thread ends after what it has.
  void Retire();
  bool retired() const { return retired_.load(std::memory_order_relaxed); }

  void AddLatch(const std::shared_ptr<Latch>& latch);
  void OpenLatches();

  // Ordered against the legacy stream of its context.
  bool blocking() const;

  Context* const context;
  const unsigned flags;
  const int priority;
  const Kind kind;
  const uint64_t id;

  // Guarded by the captures' mutex (capture.h).
  std::shared_ptr<Capture> capture;
  std::vector<Node*> tail;

 private:
  void StartThread();
  void RunThread();
  void Finish();

  std::mutex mutex_;
  std::condition_variable work_came_;
  std::condition_variable work_finished_;
  std::deque<Work> queue_;
  std::vector<std::weak_ptr<Latch>> latches_;
  bool has_thread_ = false;
  std::atomic<bool> retired_{false};
  std::atomic<uint64_t> submitted_{0};  // written under mutex_
  std::atomic<uint64_t> completed_{0};  // release publishes the work's effects to Reached's acquire
};

}  // namespace softgpu
