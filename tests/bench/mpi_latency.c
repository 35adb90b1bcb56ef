// OSU-style figures of two ranks: latency, time of a message in a stream of large and of small ones, and an allreduce.
// One line each: the name and the median over blocks, in nanoseconds. mpi_latency.py runs it in pairs, with a library
// and without. The last line is the latency with a bare record of each call, which the program writes itself.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "mpi_floor.h"

enum { kWindow = 64, kLarge = 64 * 1024, kSmall = 8, kBlocks = 101, kWarmUp = 5 };

static int rank;
static char* out;
static char* in;

static void send(void) { MPI_Send(out, kSmall, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD); }
static void receive(void) { MPI_Recv(in, kSmall, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }
static void ping_pong(void) {
  if (rank == 0) send();
  receive();
  if (rank == 1) send();
}
static void recorded(void (*call)(void)) {
  volatile uint64_t* const record = floor_enter();
  call();
  floor_leave(record);
}
static void recorded_ping_pong(void) {
  if (rank == 0) recorded(send);
  recorded(receive);
  if (rank == 1) recorded(send);
}

static void stream(int bytes) {
  MPI_Request requests[kWindow];
  for (int i = 0; i < kWindow; ++i)
    if (rank == 0)
      MPI_Isend(out, bytes, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &requests[i]);
    else
      MPI_Irecv(in, bytes, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &requests[i]);
  MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
  if (rank == 0)
    MPI_Recv(in, 1, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else
    MPI_Send(out, 1, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
}
static void bandwidth(void) { stream(kLarge); }
static void message_rate(void) { stream(kSmall); }

static void allreduce(void) { MPI_Allreduce(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// per: messages that follow one another in a step, each of which may cost more.
static void measure(const char* name, void (*step)(void), int steps, int per) {
  double ns[kBlocks];
  for (int block = -kWarmUp; block < kBlocks; ++block) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double from = MPI_Wtime();
    for (int i = 0; i < steps; ++i) step();
    if (block >= 0) ns[block] = (MPI_Wtime() - from) * 1e9 / steps / per;
  }
  qsort(ns, kBlocks, sizeof *ns, ascending);
  if (rank == 0) printf("%s %.1f\n", name, ns[kBlocks / 2]);
}

int main(int argc, char** argv) {
  int size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  out = calloc(1, kLarge);
  in = calloc(1, kLarge);
  if (size != 2 || !out || !in) return 2;
  measure("latency", ping_pong, 200, 2);
  measure("bandwidth", bandwidth, 4, kWindow);
  measure("message_rate", message_rate, 20, kWindow);
  measure("allreduce", allreduce, 200, 1);
  floor_open();
  measure("recorded", recorded_ping_pong, 200, 2);
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
