// Threads that wait in as many ways as programs do, all signals blocked, and count the times that a call told them of
// an interruption (EINTR). A deep and named stack each, so that the stacks read of them can be compared.
//
//   stuck_threads [threads=N] [period=MS] [kinds=a,b,..]
//
// Prints "ready PID" once every thread has begun, and at the end of standard input one line of JSON: for each kind the
// calls that returned and the EINTR among them. With a period the waits last so long and are begun again and again.
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace {

long period_ms = 0;  // 0: for ever
std::atomic<int> begun{0};
std::atomic<bool> over{false};
int quiet_pipe[2];     // nobody writes
int quiet_sockets[2];  // nobody sends
int semaphores = -1;

struct Count {
  std::atomic<long> returned{0}, interrupted{0};
};

timespec Period() {
  const long ms = period_ms > 0 ? period_ms : 1'000'000;
  return {ms / 1000, (ms % 1000) * 1'000'000};
}

[[gnu::noinline]] long WaitInFutex() {
  static std::atomic<int> word{0};
  const timespec limit = Period();
  return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &limit, nullptr, 0);
}

[[gnu::noinline]] long WaitInCondition() {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  const timespec limit = Period();
  until.tv_sec += limit.tv_sec;
  until.tv_nsec += limit.tv_nsec;
  if (until.tv_nsec >= 1'000'000'000) {
    until.tv_nsec -= 1'000'000'000;
    ++until.tv_sec;
  }
  pthread_mutex_lock(&mutex);
  errno = pthread_cond_timedwait(&condition, &mutex, &until);
  pthread_mutex_unlock(&mutex);
  return -1;
}

[[gnu::noinline]] long WaitInPoll() {
  pollfd one{quiet_pipe[0], POLLIN, 0};
  return poll(&one, 1, period_ms > 0 ? static_cast<int>(period_ms) : -1);
}

[[gnu::noinline]] long WaitInRead() {
  char byte = 0;
  return read(quiet_pipe[0], &byte, 1);
}

[[gnu::noinline]] long WaitInNanosleep() {
  const timespec limit = Period();
  return nanosleep(&limit, nullptr);
}

[[gnu::noinline]] long WaitInEpoll() {
  static const int epoll = epoll_create1(0);
  epoll_event event{};
  return epoll_wait(epoll, &event, 1, period_ms > 0 ? static_cast<int>(period_ms) : -1);
}

[[gnu::noinline]] long WaitInRecv() {  // the socket has SO_RCVTIMEO
  char byte = 0;
  return recv(quiet_sockets[0], &byte, 1, 0);
}

[[gnu::noinline]] long WaitInSemtimedop() {
  sembuf down{0, -1, 0};
  const timespec limit = Period();
  return semtimedop(semaphores, &down, 1, &limit);
}

[[gnu::noinline]] long WaitInSigtimedwait() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  const timespec limit = Period();
  return sigtimedwait(&set, nullptr, &limit);
}

[[gnu::noinline]] long Spin() {
  static volatile std::uint64_t counter = 0;
  for (int i = 0; i < 1'000'000 && !over.load(std::memory_order_relaxed); ++i) counter = counter + 1;
  return 0;
}

struct Kind {
  const char* name;
  long (*wait)();
  Count count;
};
Kind kinds[] = {
    {"futex", WaitInFutex, {}}, {"condition", WaitInCondition, {}},   {"poll", WaitInPoll, {}},
    {"read", WaitInRead, {}},   {"nanosleep", WaitInNanosleep, {}},   {"epoll", WaitInEpoll, {}},
    {"recv", WaitInRecv, {}},   {"semtimedop", WaitInSemtimedop, {}}, {"sigtimedwait", WaitInSigtimedwait, {}},
    {"spin", Spin, {}}};

[[gnu::noinline]] void WaitOften(Kind* kind) {
  begun.fetch_add(1);
  while (!over.load()) {
    errno = 0;
    const long result = kind->wait();
    kind->count.returned.fetch_add(1);
    if (result < 0 && errno == EINTR) kind->count.interrupted.fetch_add(1);
  }
}

[[gnu::noinline]] void Deeper(Kind* kind, int depth) {
  if (depth > 0)
    Deeper(kind, depth - 1);
  else
    WaitOften(kind);
  asm volatile("" ::: "memory");  // no tail call: the frame has to be there
}

void* ThreadMain(void* argument) {
  auto* const kind = static_cast<Kind*>(argument);
  prctl(PR_SET_NAME, kind->name);
  Deeper(kind, 3);
  return nullptr;
}

void Prepare() {
  if (pipe(quiet_pipe) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, quiet_sockets) != 0) std::abort();
  const timespec limit = Period();
  const timeval timeout{limit.tv_sec, limit.tv_nsec / 1000};
  setsockopt(quiet_sockets[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  semaphores = semget(IPC_PRIVATE, 1, 0600);
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

Kind* Find(std::string_view name) {
  for (Kind& kind : kinds)
    if (name == kind.name) return &kind;
  std::fprintf(stderr, "no such kind: %s\n", std::string(name).c_str());
  std::exit(2);
}

}  // namespace

int main(int count, char** words) {
  int threads = 10;
  std::string wanted = "futex,condition,poll,read,nanosleep,epoll,recv,semtimedop,sigtimedwait,spin";
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word.starts_with("threads=")) threads = std::atoi(word.c_str() + 8);
    if (word.starts_with("period=")) period_ms = std::atol(word.c_str() + 7);
    if (word.starts_with("kinds=")) wanted = word.substr(6);
  }
  Prepare();
  std::vector<Kind*> chosen;
  for (std::size_t at = 0; at <= wanted.size(); at = wanted.find(',', at) + 1) {
    chosen.push_back(Find(wanted.substr(at, wanted.find(',', at) - at)));
    if (wanted.find(',', at) == std::string::npos) break;
  }
  for (int i = 0; i < threads; ++i) {
    pthread_t thread{};
    if (pthread_create(&thread, nullptr, ThreadMain, chosen[static_cast<std::size_t>(i) % chosen.size()]) != 0)
      return 1;
  }
  while (begun.load() < threads) usleep(1000);
  usleep(10'000);  // until the last one waits
  std::printf("ready %d\n", getpid());
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  over.store(true);
  if (period_ms > 0) usleep(static_cast<useconds_t>(period_ms) * 2000);
  std::printf("{");
  const char* comma = "";
  for (const Kind& kind : kinds) {
    std::printf("%s\"%s\": {\"returned\": %ld, \"interrupted\": %ld}", comma, kind.name, kind.count.returned.load(),
                kind.count.interrupted.load());
    comma = ", ";
  }
  std::printf("}\n");
  std::fflush(stdout);
  semctl(semaphores, 0, IPC_RMID);
  _exit(0);
}
