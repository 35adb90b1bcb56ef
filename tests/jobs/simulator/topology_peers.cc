// Patterns of messages alone, whose faults are told by what each rank did before: a ring, halos of a grid, stages that
// pass batches down and up, and everybody with everybody. Two communicators hold all ranks. Some of them change what
// they do in a way that all ranks agree on.
#include <algorithm>

#include "simulation/chance.h"
#include "tests/jobs/simulator/topology.h"

namespace ncclwatch::jobs {
namespace {

class Peers : public Topology {
 public:
  Peers(const Job& job, std::uint64_t seed) : job_(job), chance_(seed) {
    constexpr Change kChanges[] = {Change::kNone, Change::kNone, Change::kLastUneven, Change::kGrows,
                                   Change::kSometimes};
    change_ = kChanges[chance_.Bits(0xc4a6) % 5];
    grouped_ = chance_.Bits(0x6409) % 4 != 0;
  }
  void Step(int rank, int step, Ops* ops) const override {
    Writer writer(ops);
    writer.Kernel(kCompute, 400 * kMicro);
    Exchange(rank, step, &writer);
    if (change_ == Change::kSometimes && step % 3 == 0) WithNeighbour(rank, &writer);
    if (chance_.Bits(0x5417) % 2 == 0) writer.Sync(kCompute);
  }

 protected:
  virtual void Exchange(int rank, int step, Writer* writer) const = 0;
  int ranks() const { return job_.shape.ranks; }
  int comm(int rank) const { return job_.CommOf(rank, "peers"); }
  bool grouped() const { return grouped_; }
  const Chance& chance() const { return chance_; }
  std::uint64_t Count(std::uint64_t usual, int step) const {
    if (change_ == Change::kGrows) return usual + static_cast<std::uint64_t>(step) * 16;
    return change_ == Change::kLastUneven && step + 1 >= job_.steps ? usual / 2 + 1 : usual;
  }

 private:
  enum class Change { kNone, kLastUneven, kGrows, kSometimes };

  void WithNeighbour(int rank, Writer* writer) const {
    const int other = rank ^ 1;
    if (other >= ranks()) return;
    writer->GroupStart();
    writer->Send(comm(rank), other, 777, kCompute);
    writer->Recv(comm(rank), other, 777, kCompute);
    writer->GroupEnd();
  }

  const Job& job_;
  Chance chance_;
  Change change_;
  bool grouped_;
};

class Ring : public Peers {
 public:
  using Peers::Peers;

 private:
  void Exchange(int rank, int step, Writer* writer) const override {
    const int turns = 1 + static_cast<int>(chance().Bits(0x7042) % 2);
    for (int turn = 0; turn < turns; ++turn) {
      writer->GroupStart();
      writer->Send(comm(rank), (rank + 1) % ranks(), Count(20480, step), kCompute);
      writer->Recv(comm(rank), (rank + ranks() - 1) % ranks(), Count(20480, step), kCompute);
      writer->GroupEnd();
      writer->Kernel(kCompute, 200 * kMicro);
    }
  }
};

// Ranks at the edges have fewer neighbours, unless the grid closes on itself. First along one axis, then along the
// other one, or all at once.
class Halo : public Peers {
 public:
  Halo(const Job& job, std::uint64_t seed) : Peers(job, seed), columns_(2) {
    while (columns_ * columns_ * 4 <= ranks()) columns_ *= 2;
    closed_ = chance().Bits(0xc105) % 2 == 0;
  }

 private:
  void Exchange(int rank, int step, Writer* writer) const override {
    const int rows = ranks() / columns_, row = rank / columns_, column = rank % columns_;
    if (grouped()) writer->GroupStart();
    for (const bool vertical : {false, true}) {
      if (!grouped()) writer->GroupStart();
      for (const int way : {-1, 1}) {
        const int peer = vertical ? At(row + way, rows, column, true) : At(column + way, columns_, row, false);
        if (peer < 0 || peer == rank) continue;
        writer->Send(comm(rank), peer, Count(vertical ? 3000 : 5000, step), kCompute);
        writer->Recv(comm(rank), peer, Count(vertical ? 3000 : 5000, step), kCompute);
      }
      if (!grouped()) writer->GroupEnd();
    }
    if (grouped()) writer->GroupEnd();
  }
  int At(int place, int places, int other, bool vertical) const {
    if (!closed_ && (place < 0 || place >= places)) return -1;
    place = (place + places) % places;
    return vertical ? place * columns_ + other : other * columns_ + place;
  }

  int columns_;
  bool closed_ = false;
};

class Stages : public Peers {
 public:
  using Peers::Peers;

 private:
  void Exchange(int rank, int step, Writer* writer) const override {
    constexpr int kStages = 4;
    const int stage = rank % kStages, batches = 2 + static_cast<int>(chance().Bits(0xba7c) % 3);
    for (int i = 0; i < batches; ++i) {
      if (stage > 0) writer->Recv(comm(rank), rank - 1, Count(40960, step), kCompute);
      writer->Kernel(kCompute, 200 * kMicro);
      if (stage + 1 < kStages) writer->Send(comm(rank), rank + 1, Count(40960, step), kCompute);
    }
    for (int i = 0; i < batches; ++i) {
      if (stage + 1 < kStages) writer->Recv(comm(rank), rank + 1, Count(30720, step), kCompute);
      writer->Kernel(kCompute, 200 * kMicro);
      if (stage > 0) writer->Send(comm(rank), rank - 1, Count(30720, step), kCompute);
    }
  }
};

class AllToAll : public Peers {
 public:
  using Peers::Peers;

 private:
  void Exchange(int rank, int step, Writer* writer) const override {
    const int size = std::min(ranks(), 64), first = rank / size * size;
    writer->GroupStart();
    for (int peer = first; peer < std::min(first + size, ranks()); ++peer) {
      writer->Send(comm(rank), peer, Count(Tokens(rank, peer), step), kCompute);
      writer->Recv(comm(rank), peer, Count(Tokens(peer, rank), step), kCompute);
    }
    writer->GroupEnd();
  }
  std::uint64_t Tokens(int from, int to) const {
    return 1000 + 64 * (chance().Bits(0x70c, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to)) % 40);
  }
};

template <typename Pattern>
std::unique_ptr<Topology> Make(Job* job, std::uint64_t seed) {
  std::vector<int> all(static_cast<std::size_t>(job->shape.ranks));
  for (int rank = 0; rank < job->shape.ranks; ++rank) all[static_cast<std::size_t>(rank)] = rank;
  job->AddAll({all}, "peers");
  job->exchanges = false;
  job->ring = 4096;
  return std::make_unique<Pattern>(*job, seed);
}

}  // namespace

std::unique_ptr<Topology> MakeRing(Job* job, std::uint64_t seed) { return Make<Ring>(job, seed); }
std::unique_ptr<Topology> MakeHalo(Job* job, std::uint64_t seed) { return Make<Halo>(job, seed); }
std::unique_ptr<Topology> MakeStages(Job* job, std::uint64_t seed) { return Make<Stages>(job, seed); }
std::unique_ptr<Topology> MakeAllToAll(Job* job, std::uint64_t seed) { return Make<AllToAll>(job, seed); }

}  // namespace ncclwatch::jobs
