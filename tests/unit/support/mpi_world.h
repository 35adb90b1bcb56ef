// A job of MPI that is played in virtual time: a few ranks, messages that take their time to arrive, calls that return
// late. Every instant can be cut: the boxes are then copied one after the other and each of them in parts, as a reader
// copies them, while the job goes on.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <queue>
#include <random>
#include <vector>

#include "tests/unit/support/mpi_job.h"
#include "tests/unit/support/mpi_task.h"

namespace ncclwatch::testing {

struct MpiStatus {
  int source = kAny;
  int tag = kAny;
};
using Slots = std::vector<std::uint64_t>;

class MpiWorld {
 public:
  class Rank;
  using Program = std::function<Task(Rank&)>;
  // Gets each cut once all of it is copied.
  using Diagnose = std::function<void(const diagnosis::Snapshot&)>;

  MpiWorld(int ranks, unsigned seed);
  ~MpiWorld();
  // False: it stood still before all ranks had come to their end.
  bool Run(const Program& program, double cuts_per_event, const Diagnose& judge);

 private:
  struct Sent;
  struct Posted;
  struct Cut;
  struct Event {
    std::int64_t at_ns;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const { return std::tie(other.at_ns, other.order) < std::tie(at_ns, order); }
  };

  void In(std::int64_t ns, std::function<void()> what);
  std::int64_t Between(std::int64_t least, std::int64_t most);
  bool Chance(double of);
  std::int64_t Moment() { return Between(10, 5'000); }
  std::int64_t Delay();
  void Wake();
  std::shared_ptr<Sent> HandOver(int from, int to, int tag, std::uint64_t bytes, std::uint64_t slot, bool synchronous);
  void Arrive(const std::shared_ptr<Sent>& sent);
  std::shared_ptr<Posted> Post(int rank, int source, int tag, std::uint64_t slot);
  bool AllEntered(std::uint64_t collectives) const;
  void BeginCut(const Diagnose& judge);
  void DiagnoseEnd(const Diagnose& judge);
  void DropOld(reader::BoxImage* image) const;
  void CopyBox(const std::shared_ptr<Cut>& cut, int rank, std::int64_t most_ns, const Diagnose& judge);

  MpiJob job_;
  std::mt19937 random_;
  std::uint64_t eager_;
  std::size_t ring_;
  std::int64_t time_ns_ = 0;
  std::uint64_t order_ = 0;
  bool of_the_job_ = true;  // the event of this moment, and not a reader's
  std::priority_queue<Event> events_;
  struct Sleeper {
    std::function<bool()> ready;
    std::coroutine_handle<> who;
  };
  std::list<Sleeper> sleepers_;
  std::deque<Rank> ranks_;
};

// What a program calls.
class MpiWorld::Rank {
 public:
  Rank(MpiWorld* world, int rank, int size) : world_(*world), rank_(rank), size_(size) {}
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::uint64_t eager() const { return world_.eager_; }  // up to so many bytes a send waits for nobody
  bool Chance(double of) { return world_.Chance(of); }
  int Draw(int below) { return static_cast<int>(world_.Between(0, below - 1)); }

  Task Compute();
  Task Send(int to, int tag, std::uint64_t bytes, bool synchronous = false);
  Task Recv(int from, int tag, std::uint64_t bytes, MpiStatus* status = nullptr);
  Task Sendrecv(int to, int from, int tag, std::uint64_t bytes);
  Task Isend(int to, int tag, std::uint64_t bytes, std::uint64_t* request, bool synchronous = false);
  Task Irecv(int from, int tag, std::uint64_t bytes, std::uint64_t* request);
  Task Probe(int from, int tag, MpiStatus* status);
  Task Iprobe(int from, int tag, bool* found, MpiStatus* status);
  Task Waitall(Slots requests);
  Task Waitany(Slots requests, std::size_t* which, MpiStatus* status);
  Task Testall(Slots requests, bool* done);
  Task Barrier();
  Task Ibarrier(std::uint64_t* request);
  Task Bcast(int root);
  Task Reduce(int root);

 private:
  friend class MpiWorld;
  struct Sleep {
    MpiWorld& world;
    std::int64_t ns;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> who) {
      world.In(ns, [who] { who.resume(); });
    }
    void await_resume() const {}
  };
  struct Until {
    MpiWorld& world;
    std::function<bool()> ready;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> who) {
      world.sleepers_.push_back({ready, who});
      world.Wake();
    }
    void await_resume() const {}
  };
  struct Request {
    std::uint64_t slot = 0;
    std::shared_ptr<Sent> sent;
    std::shared_ptr<Posted> posted;
    std::uint64_t collective = 0;  // done when all have entered so many
  };
  Sleep Moment() { return {world_, world_.Moment()}; }
  Sleep Later() { return {world_, world_.Delay()}; }
  bool Done(const Request& request) const;
  const Request& Of(std::uint64_t slot) const;
  const Sent* Probed(int from, int tag) const;
  void Close(std::uint64_t slot, MpiStatus* status);
  Task EnterWait(Function function, const Slots& requests, std::uint64_t* slot);

  MpiWorld& world_;
  const int rank_, size_;
  std::uint64_t collectives_ = 0;
  std::vector<Request> requests_;
  std::list<std::shared_ptr<Sent>> unexpected_;
  std::list<std::shared_ptr<Posted>> posted_;
  std::vector<std::int64_t> last_arrival_;  // by receiver
};

}  // namespace ncclwatch::testing
