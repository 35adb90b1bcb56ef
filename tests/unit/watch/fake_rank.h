// A rank without an application: a real child process with a real, locked black box and a real watchdog thread. The
// test plays the application: it writes calls into the box through a mapping of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ncclwatch/format/black_box.h"
#include "ncclwatch/format/lease.h"
#include "ncclwatch/functions/function.h"
#include "watchdog/settings/settings.h"

namespace ncclwatch::watch {

bool Eventually(const std::function<bool()>& condition, double seconds = 10);
std::string Content(const std::string& path);
int Count(const std::string& text, const std::string& what);

struct FakeCall {
  functions::Function function = functions::Function::ncclAllReduce;
  std::uint64_t count = 1024;
  std::uint8_t dtype = 7;  // float32
};

class FakeRank {
 public:
  struct Options {
    bool watchdog = true;
    bool fork_child = false;  // leaves a child behind that keeps every descriptor and mapping it inherits
  };
  FakeRank(const std::string& directory, int rank, int size, const settings::Settings& settings, Options options);
  FakeRank(const std::string& directory, int rank, int size, const settings::Settings& settings)
      : FakeRank(directory, rank, size, settings, Options()) {}
  ~FakeRank();
  FakeRank(const FakeRank&) = delete;
  FakeRank& operator=(const FakeRank&) = delete;

  void MakeCommunicator(std::uint64_t id, bool ready = true);
  void Ready();
  void Enter(const FakeCall& call = {});
  void Return();
  void Call(const FakeCall& call = {}) {
    Enter(call);
    Return();
  }

  void Signal(int signal) const;
  void Stop() const;  // SIGSTOP; returns when all of its threads stand still
  int Wait();         // reaps: the wait status
  bool Reaped() const { return reaped_; }
  pid_t pid() const { return pid_; }
  int rank() const { return rank_; }
  format::Header& header() { return *header_; }

 private:
  [[noreturn]] void Live(const std::string& directory, const settings::Settings& settings, Options options, int ready);
  void MapBox();
  int rank_, size_;
  std::string path_;
  pid_t pid_ = -1, child_ = -1;
  bool reaped_ = false;
  format::Header* header_ = nullptr;
};

// A job of fake ranks in a directory of its own.
class FakeJob {
 public:
  FakeJob();
  ~FakeJob();
  FakeRank& Add(int rank, int size, FakeRank::Options options = FakeRank::Options());
  void Start(int size);  // ranks with one ready communicator, announced and led by rank 0
  FakeRank& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  void CallAll(const FakeCall& call = {});

  std::string directory() const { return top_ + "/run"; }
  std::string top() const { return top_; }
  std::string Said() const;  // stderr of all ranks
  std::string Diagnosis() const { return Content(directory() + "/diagnosis.json"); }
  format::Lease& lease();
  FakeRank* Leader();
  settings::Settings settings;

 private:
  std::string top_;
  std::vector<std::unique_ptr<FakeRank>> ranks_;
  format::Lease* lease_ = nullptr;
};

}  // namespace ncclwatch::watch
