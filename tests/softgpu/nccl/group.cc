#include "group.h"

#include <signal.h>

#include <algorithm>

#include "status.h"

namespace softgpu {
namespace {

struct Job {
  ncclComm* comm = nullptr;
  bool destroying = false;  // the communicator is gone when the job is over
  std::function<ncclResult_t()> run;
};

struct Group {
  int depth = 0;
  int blocking = -1;  // of the communicators met so far; -1: none
  ncclResult_t error = ncclSuccess;
  std::vector<Job> jobs;
  std::vector<Work> work;
};

thread_local Group group;

// Threads of the library take none of the application's signals.
std::thread QuietThread(std::function<void()> run) {
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  std::thread thread(std::move(run));
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  return thread;
}

ncclResult_t RunJobs(std::vector<Job>& jobs) {
  if (jobs.empty()) return ncclSuccess;
  if (jobs.size() == 1) return jobs[0].run();
  std::mutex mutex;
  ncclResult_t first_error = ncclSuccess;
  std::vector<std::thread> threads;
  for (Job& job : jobs) {
    threads.push_back(QuietThread([&] {
      const ncclResult_t result = job.run();
      if (result == ncclSuccess) return;
      const std::lock_guard lock(mutex);
      if (first_error != ncclSuccess) return;
      first_error = result;
      // The others would wait for ever for the one that failed.
      for (Job& other : jobs) {
        if (!other.destroying && &other != &job) SetAbort(other.comm, 1);
      }
    }));
  }
  for (std::thread& thread : threads) thread.join();
  return first_error;
}

ncclResult_t RunGroup(std::vector<Job>& jobs, std::vector<Work>& work, bool simulate) {
  ncclResult_t result = RunJobs(jobs);
  for (Work& w : work) {
    if (result != ncclSuccess || simulate) break;
    result = Launch(std::move(w));
  }
  return result;
}

// The communicators of a group that outlive it.
std::vector<ncclComm*> Survivors(const std::vector<Job>& jobs, const std::vector<Work>& work) {
  std::vector<ncclComm*> comms;
  const auto add = [&](ncclComm* comm) {
    if (std::find(comms.begin(), comms.end(), comm) == comms.end()) comms.push_back(comm);
  };
  for (const Job& job : jobs) {
    if (!job.destroying) add(job.comm);
  }
  for (const Work& w : work) add(w.comm);
  return comms;
}

void Release(ncclComm* comm) {
  const std::lock_guard lock(comm->mutex);
  --comm->users;
  comm->changed.notify_all();
}

void SetResult(const std::vector<ncclComm*>& comms, ncclResult_t result) {
  for (ncclComm* comm : comms) {
    // An error that came up meanwhile (a dead peer) stays.
    int expected = ncclInProgress;
    comm->async_result.compare_exchange_strong(expected, result);
  }
}

ncclResult_t StartInBackground(Group&& finished, bool simulate) {
  const std::vector<ncclComm*> comms = Survivors(finished.jobs, finished.work);
  auto job = std::make_shared<BackgroundJob>();
  for (ncclComm* comm : comms) {
    comm->async_result.store(ncclInProgress);
    const std::lock_guard lock(comm->mutex);
    ++comm->users;
    if (!comm->background) comm->background = job;
  }
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  job->Start([jobs = std::move(finished.jobs), work = std::move(finished.work), comms, simulate]() mutable {
    const ncclResult_t result = RunGroup(jobs, work, simulate);
    SetResult(comms, result);
    for (ncclComm* comm : comms) Release(comm);
  });
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  return ncclInProgress;
}

ncclResult_t CheckBlocking(ncclComm* comm) {
  if (comm->destroying.load()) {
    group.blocking = 1;
  } else if (group.blocking == -1) {
    group.blocking = comm->config.blocking;
  } else if (group.blocking != comm->config.blocking) {
    Warn("Blocking and nonblocking communicators are not allowed in the same group.");
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

Work& WorkOf(ncclComm* comm, CUstream stream) {
  auto work = std::find_if(group.work.begin(), group.work.end(), [&](const Work& w) { return w.comm == comm; });
  if (work == group.work.end()) {
    group.work.push_back(Work{});
    work = group.work.end() - 1;
    work->comm = comm;
  }
  if (std::find(work->streams.begin(), work->streams.end(), stream) == work->streams.end()) {
    work->streams.push_back(stream);
  }
  return *work;
}

}  // namespace

int GroupDepth() { return group.depth; }

void GroupStart() { ++group.depth; }

ncclResult_t GroupError(ncclResult_t result) {
  if (group.depth > 0 && result != ncclSuccess && result != ncclInProgress) group.error = result;
  return result;
}

ncclResult_t GroupEnd(bool simulate) {
  if (group.depth == 0) {
    Warn("ncclGroupEnd: not in a group call.");
    return ncclInvalidUsage;
  }
  if (--group.depth > 0) return ncclSuccess;
  struct GroupCall {
    ~GroupCall() { profiler::StopGroupCall(); }
  } const group_call;
  Group finished = std::move(group);
  group = Group{};
  if (finished.error != ncclSuccess) {
    for (ncclComm* comm : Survivors(finished.jobs, finished.work)) {
      if (!comm->config.blocking) comm->async_result.store(finished.error);
    }
    return finished.error;
  }
  if (finished.jobs.empty() && finished.work.empty()) return ncclSuccess;
  if (finished.blocking == 0) return StartInBackground(std::move(finished), simulate);
  return RunGroup(finished.jobs, finished.work, simulate);
}

ncclResult_t GroupRun(ncclComm* comm, std::function<ncclResult_t()> job) {
  if (group.depth == 0) return job();
  if (const ncclResult_t result = CheckBlocking(comm); result != ncclSuccess) return result;
  group.jobs.push_back(Job{comm, comm->destroying.load(), std::move(job)});
  return ncclSuccess;
}

ncclResult_t GroupAdd(ncclComm* comm, CUstream stream, const Collective& collective) {
  if (const ncclResult_t result = CheckBlocking(comm); result != ncclSuccess) return result;
  WorkOf(comm, stream).collectives.push_back(collective);
  return ncclSuccess;
}

ncclResult_t GroupAdd(ncclComm* comm, CUstream stream, const PointToPoint& transfer) {
  if (const ncclResult_t result = CheckBlocking(comm); result != ncclSuccess) return result;
  WorkOf(comm, stream).transfers.push_back(transfer);
  return ncclSuccess;
}

}  // namespace softgpu
