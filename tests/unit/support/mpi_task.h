// What a rank of the played job does, as a coroutine: it stops wherever MPI, or its own computing, takes time.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace ncclwatch::testing {

class [[nodiscard]] Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;
  struct Final {
    bool await_ready() noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle ended) noexcept {
      return ended.promise().then ? ended.promise().then : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  struct promise_type {
    std::coroutine_handle<> then;
    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    Final final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };

  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool done() const { return handle_.done(); }
  void Start() { handle_.resume(); }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> then) noexcept {
    handle_.promise().then = then;
    return handle_;
  }
  void await_resume() const noexcept {}

 private:
  Handle handle_;
};

}  // namespace ncclwatch::testing
