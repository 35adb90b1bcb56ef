#include "watchdog/act/thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include <exception>
#include <memory>

#include "watchdog/reader/guard.h"

namespace ncclwatch::act {
namespace {

constexpr std::size_t kStackBytes = 1 << 20;

struct Body {
  const char* name;
  std::function<void()> run;
};

void* Main(void* argument) {
  const std::unique_ptr<Body> body(static_cast<Body*>(argument));
  prctl(PR_SET_NAME, body->name);
  reader::guard::OpenThisThread();
  try {
    body->run();
  } catch (const std::exception&) {
  }
  return nullptr;
}

}  // namespace

bool StartThread(const char* name, std::function<void()> run) {
  std::unique_ptr<Body> body(new Body{name, std::move(run)});
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // Born with everything blocked: a signal meant for the application must never run its handler here.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, Main, body.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) return false;
  static_cast<void>(body.release());
  return true;
}

}  // namespace ncclwatch::act
