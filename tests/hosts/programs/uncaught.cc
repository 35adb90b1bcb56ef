// Exceptions that nobody catches, and other ways to std::terminate(): uncaught MODE.
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <exception>
#include <new>
#include <stdexcept>
#include <thread>

#include "host.h"

namespace {

struct Second {
  virtual ~Second() = default;
  int padding[4] = {1, 2, 3, 4};
};
// std::exception is not its first base: its what() is found by the type alone.
struct Odd : Second, std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Private : private std::runtime_error {
  Private() : std::runtime_error("not to be seen as a std::exception") {}
};
const char* Refuse() { throw 1; }
struct Vicious : std::exception {
  const char* what() const noexcept override { return Refuse(); }  // ends in std::terminate() once more
};

std::terminate_handler before = nullptr;

[[noreturn]] void Mine() {
  host::Say("a handler of the program's own");
  if (before) before();
  std::_Exit(31);
}

void Throw(const std::string& mode) {
  if (mode == "standard" || mode == "own-before" || mode == "own-after" || mode == "thread" || mode == "child")
    throw std::runtime_error("nobody catches this");
  if (mode == "odd") throw Odd("in the second base");
  if (mode == "private") throw Private();
  if (mode == "vicious") throw Vicious();
  if (mode == "number") throw 42;
  if (mode == "text") throw "some text";
  if (mode == "memory") throw std::bad_alloc();
  if (mode == "long") throw std::runtime_error(std::string(5000, 'x'));
  if (mode == "none") std::terminate();
  if (mode == "joinable") std::thread([] { pause(); });
  if (mode == "nested") {
    try {
      throw std::logic_error("inner");
    } catch (...) {
      std::throw_with_nested(std::runtime_error("outer"));
    }
  }
  if (mode == "pointer") {
    std::exception_ptr kept;
    try {
      throw std::domain_error("carried elsewhere");
    } catch (...) {
      kept = std::current_exception();
    }
    std::rethrow_exception(kept);
  }
}

void NoThrow(const std::string& mode) noexcept { Throw(mode); }  // NOLINT(bugprone-exception-escape): on purpose

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): an exception that nobody catches is what this is about
int main(int argc, char** argv) {
  CHECK(argc == 2 || argc == 3);
  const std::string mode = argv[1];
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (mode == "own-before") std::set_terminate(Mine);
  const ncclComm_t world = host::World();
  host::AllReduce(world, 63);
  if (mode == "own-after") before = std::set_terminate(Mine);
  if (mode == "child") {
    const pid_t child = fork();
    if (child == 0) Throw(mode);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return 45;
  }
  if (mode == "thread") std::thread([&] { Throw(mode); }).join();
  if (argc == 3) NoThrow(mode);
  Throw(mode);
  return 97;
}
