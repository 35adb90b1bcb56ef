/* Fifty threads that wait, each in another system call; `MPI_Barrier` stands for a call that waits for the other ranks, and
 * the process whose argument is "elsewhere" does not make it. "spins": it does not sleep meanwhile. Prints a line for each call that a signal or ptrace ends. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kThreads = 49, kSeconds = 1000 };

static void ended(const char* call) {
  if (errno == EINTR) printf("EINTR in %s\n", call), fflush(stdout);
}

static void wait_in(long which) {
  struct timespec seconds = {kSeconds, 0};
  int pair[2];
  if (which == 0) {
    if (nanosleep(&seconds, NULL) != 0) ended("nanosleep");
  } else if (which == 1) {
    struct epoll_event event;
    if (epoll_wait(epoll_create1(0), &event, 1, kSeconds * 1000) < 0) ended("epoll_wait");
  } else if (which == 2) {
    struct timeval timeout = {kSeconds, 0};
    char byte;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return;
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (recv(pair[0], &byte, 1, 0) < 0) ended("recv");
  } else {
    struct pollfd nobody = {-1, POLLIN, 0};
    if (poll(&nobody, 1, kSeconds * 1000) < 0) ended("poll");
  }
}

static void* waiting(void* which) {
  for (;;) wait_in((long)which);
  return NULL;
}

static volatile int spins;

__attribute__((noinline)) void MPI_Barrier(void) {
  for (;;)
    if (!spins) wait_in(3);
}

__attribute__((noinline)) static void load_batch(void) {
  for (;;) wait_in(0); /* ELSEWHERE */
}

int main(int argc, char** argv) {
  for (long i = 0; i < kThreads; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, waiting, (void*)(i % 4)) != 0) return 1;
  }
  puts("ready");
  fflush(stdout);
  if (argc > 1 && !strcmp(argv[1], "elsewhere")) load_batch();
  spins = argc > 1 && !strcmp(argv[1], "spins");
  MPI_Barrier();
  return 0;
}
