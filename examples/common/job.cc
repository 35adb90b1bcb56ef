#include "common/job.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "common/check.h"

namespace examples {
namespace {

// torchrun's agent keeps MASTER_PORT for itself, so the port is looked for a little above it.
constexpr int kPortsTried = 16;
constexpr auto kPatience = std::chrono::seconds(120);

struct Request {
  char key[120];
  int number;
  int pad;
};
struct Answer {
  int found;
  ncclUniqueId id;
};

const char* FirstOf(std::initializer_list<const char*> names, const char* otherwise) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value && *value) return value;
  }
  return otherwise;
}

bool ReadAll(int fd, void* data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = read(fd, static_cast<char*>(data) + done, size - done);
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

bool WriteAll(int fd, const void* data, size_t size) {
  return send(fd, data, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

// The ids that this process, rank 0, hands out.
class Server {
 public:
  explicit Server(const Job& job) : key_(job.key) {
    for (int port = job.port + 1; port <= job.port + kPortsTried && listener_ < 0; ++port) Listen(port);
    if (listener_ < 0) {
      std::fprintf(stderr, "no free port above %d\n", job.port);
      std::exit(1);
    }
    std::thread([this] { Serve(); }).detach();
  }

  void Put(int number, const ncclUniqueId& id) {
    std::lock_guard lock(mutex_);
    ids_[number] = id;
  }

 private:
  void Listen(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && listen(fd, 128) == 0) {
      listener_ = fd;
    } else {
      close(fd);
    }
  }

  void Serve() {
    for (;;) {
      int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      timeval patience{1, 0};
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      Request request{};
      if (ReadAll(fd, &request, sizeof request) &&
          std::strncmp(request.key, key_.c_str(), sizeof request.key - 1) == 0) {
        Answer answer{};
        {
          std::lock_guard lock(mutex_);
          auto at = ids_.find(request.number);
          answer.found = at != ids_.end();
          if (answer.found) answer.id = at->second;
        }
        WriteAll(fd, &answer, sizeof answer);
      }
      close(fd);
    }
  }

  std::string key_;
  int listener_ = -1;
  std::mutex mutex_;
  std::map<int, ncclUniqueId> ids_;
};

bool Ask(const Job& job, int port, int number, ncclUniqueId* id) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(job.address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return false;
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> keep(found, freeaddrinfo);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  timeval patience{2, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  Request request{};
  std::strncpy(request.key, job.key.c_str(), sizeof request.key - 1);
  request.number = number;
  Answer answer{};
  bool ok = connect(fd, found->ai_addr, found->ai_addrlen) == 0 && WriteAll(fd, &request, sizeof request) &&
            ReadAll(fd, &answer, sizeof answer) && answer.found;
  close(fd);
  if (ok) *id = answer.id;
  return ok;
}

}  // namespace

Job Job::FromEnvironment() {
  Job job;
  job.rank = std::atoi(FirstOf({"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}, "0"));
  job.world_size = std::atoi(FirstOf({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}, "1"));
  job.local_rank =
      std::atoi(FirstOf({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}, "0"));
  job.address = FirstOf({"EXAMPLES_ADDRESS", "MASTER_ADDR", "SLURM_LAUNCH_NODE_IPADDR"}, "127.0.0.1");
  std::string launch =
      FirstOf({"TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"}, "");
  if (launch.empty() || launch == "none") launch = std::to_string(getppid());
  job.key = launch + "/" + FirstOf({"MASTER_PORT"}, "") + "/" + FirstOf({"TORCHELASTIC_RESTART_COUNT"}, "0");
  job.port = 20000 + static_cast<int>(std::hash<std::string>{}(job.key) % 20000);
  if (const char* port = std::getenv("MASTER_PORT")) job.port = std::atoi(port);
  return job;
}

ncclUniqueId ShareUniqueId(const Job& job, int number) {
  ncclUniqueId id;
  if (job.rank == 0) {
    static Server* server = new Server(job);  // its thread outlives main
    NCCL_CHECK(ncclGetUniqueId(&id));
    server->Put(number, id);
    return id;
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    for (int port = job.port + 1; port <= job.port + kPortsTried; ++port) {
      if (Ask(job, port, number, &id)) return id;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::fprintf(stderr, "rank %d: nobody hands out the unique id at %s:%d\n", job.rank, job.address.c_str(),
               job.port + 1);
  std::exit(1);
}

}  // namespace examples
