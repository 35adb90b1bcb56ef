#include "plan.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace random_program {
namespace {

constexpr int kDatatypes = 12;

class Maker {
 public:
  Maker(std::uint64_t seed, int ranks, bool alone) : random_(seed), ranks_(ranks), alone_(alone) {}

  Lane Make() {
    lane_.streams = Between(1, 3);
    lane_.non_blocking = Chance(20);
    lane_.nccl_memory = Chance(30);
    lane_.communicators.push_back({Range(ranks_)});
    live_.push_back(0);
    const int steps = Between(15, 50);
    while (static_cast<int>(lane_.steps.size()) < steps) Add();
    for (std::size_t i = live_.size(); i-- > 0;) Destroy(i);
    return std::move(lane_);
  }

 private:
  int Between(int low, int high) { return low + static_cast<int>(random_() % static_cast<unsigned>(high - low + 1)); }
  bool Chance(int percent) { return Between(1, 100) <= percent; }
  static std::vector<int> Range(int n) {
    std::vector<int> values(n);
    std::iota(values.begin(), values.end(), 0);
    return values;
  }
  int Live() { return live_[Between(0, static_cast<int>(live_.size()) - 1)]; }
  int Size(int communicator) const { return static_cast<int>(lane_.communicators[communicator].members.size()); }
  // The default stream waits for the others: only where no other lane's work can be among them.
  int Stream() { return alone_ && Chance(10) ? -1 : Between(0, lane_.streams - 1); }

  std::size_t Count() {
    const int kind = Between(1, 100);
    if (kind <= 6) return 0;
    if (kind <= 50) return Between(1, 40);
    if (kind <= 92) return Between(41, 3000);
    return Between(3001, 20000);
  }

  Call RandomCall() {
    Call call;
    call.op = static_cast<Op>(Between(0, static_cast<int>(Op::kCount) - 1));
    call.communicator = Live();
    call.count = Count();
    call.dtype = Between(0, kDatatypes - 1);
    call.reduction = Between(0, 4);
    call.root = Between(0, Size(call.communicator) - 1);
    call.stream = Stream();
    call.in_place = Chance(30);
    return call;
  }

  void Calls() {
    Step step;
    step.kind = Step::Kind::kCalls;
    const int calls = Chance(60) ? 1 : Between(1, 6);
    for (int i = 0; i < calls; ++i) step.calls.push_back(RandomCall());
    step.grouped = calls > 1 || Chance(20);
    step.nested = step.grouped && Chance(20);
    // A reduction of the user's making belongs to one communicator and is made and dropped around its call.
    const bool reduces =
        step.calls[0].op == Op::kAllReduce || step.calls[0].op == Op::kReduce || step.calls[0].op == Op::kReduceScatter;
    if (!step.grouped && reduces && Chance(25)) step.calls[0].reduction = kUserMade;
    lane_.steps.push_back(step);
  }

  Transfer RandomTransfer(int from, int to) {
    Transfer transfer;
    transfer.from = from;
    transfer.to = to;
    transfer.count = Count();
    transfer.dtype = transfer.receive_dtype = Between(0, kDatatypes - 1);
    transfer.receive_count = transfer.count;
    if (Chance(20)) {  // bytes are what is moved: another type of fewer bytes may receive them
      transfer.receive_dtype = 1;
      transfer.receive_count = transfer.count * kBytes[transfer.dtype];
    }
    return transfer;
  }

  void Transfers() {
    Step step;
    step.kind = Step::Kind::kTransfers;
    step.communicator = Live();
    step.stream = Stream();
    step.grouped = true;
    const int size = Size(step.communicator);
    const int pattern = Between(0, 3);
    if (pattern == 0) {  // a ring by some distance
      const int distance = Between(0, size - 1);
      for (int rank = 0; rank < size; ++rank) step.transfers.push_back(RandomTransfer(rank, (rank + distance) % size));
    } else if (pattern == 1) {  // everybody to everybody
      for (int from = 0; from < size; ++from)
        for (int to = 0; to < size; ++to) step.transfers.push_back(RandomTransfer(from, to));
    } else if (pattern == 2) {  // some pairs, several times, in one group
      for (int i = Between(1, 6); i > 0; --i)
        step.transfers.push_back(RandomTransfer(Between(0, size - 1), Between(0, size - 1)));
    } else {  // a pipeline stage hands on, without a group; to oneself only a group can
      const int from = Between(0, size - 1), to = Between(0, size - 1);
      step.grouped = from == to;
      step.transfers.push_back(RandomTransfer(from, to));
    }
    lane_.steps.push_back(step);
  }

  // Not one that was shrunk: its excluded ranks did not take part, and NCCL counts a communicator's children on each
  // rank by itself.
  int Parent() {
    const int parent = Live();
    return std::find(shrunk_.begin(), shrunk_.end(), parent) == shrunk_.end() ? parent : -1;
  }

  void Split() {
    Step step;
    step.kind = Step::Kind::kSplit;
    step.communicator = Parent();
    if (step.communicator < 0) return;
    const std::vector<int> members = lane_.communicators[step.communicator].members;
    const int size = static_cast<int>(members.size());
    const int colors = Between(1, 3);
    for (int rank = 0; rank < size; ++rank) {
      step.colors.push_back(Chance(10) ? -1 : Between(0, colors - 1));
      step.keys.push_back(Between(0, 3));
    }
    step.made.assign(colors, -1);
    for (int color = 0; color < colors; ++color) {
      std::vector<int> of_color;
      for (int rank = 0; rank < size; ++rank)
        if (step.colors[rank] == color) of_color.push_back(rank);
      if (of_color.empty()) continue;
      std::stable_sort(of_color.begin(), of_color.end(), [&](int a, int b) { return step.keys[a] < step.keys[b]; });
      CommunicatorPlan made;
      for (int rank : of_color) made.members.push_back(members[rank]);
      step.made[color] = static_cast<int>(lane_.communicators.size());
      lane_.communicators.push_back(made);
      live_.push_back(step.made[color]);
    }
    lane_.steps.push_back(step);
  }

  // A communicator of its own unique id among some of the ranks, in any order.
  void Create() {
    Step step;
    step.kind = Step::Kind::kCreate;
    std::vector<int> members = Range(ranks_);
    std::shuffle(members.begin(), members.end(), random_);
    members.resize(Between(1, ranks_));
    step.made = {static_cast<int>(lane_.communicators.size())};
    lane_.communicators.push_back({members});
    live_.push_back(step.made[0]);
    lane_.steps.push_back(step);
  }

  void Shrink() {
    Step step;
    step.kind = Step::Kind::kShrink;
    step.communicator = Parent();
    if (step.communicator < 0) return;
    const std::vector<int> members = lane_.communicators[step.communicator].members;
    if (members.size() < 2) return;
    shrunk_.push_back(step.communicator);
    const int without = Between(0, static_cast<int>(members.size()) - 1);
    step.excluded = {without};
    CommunicatorPlan made;
    for (int rank = 0; rank < static_cast<int>(members.size()); ++rank)
      if (rank != without) made.members.push_back(members[rank]);
    step.made = {static_cast<int>(lane_.communicators.size())};
    lane_.communicators.push_back(made);
    live_.push_back(step.made[0]);
    lane_.steps.push_back(step);
  }

  void Destroy(std::size_t which) {
    Step step;
    step.kind = Step::Kind::kDestroy;
    step.communicator = live_[which];
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
    lane_.steps.push_back(step);
  }

  void Simple(Step::Kind kind) {
    Step step;
    step.kind = kind;
    step.communicator = Live();
    step.fork_how = Between(0, 3);
    lane_.steps.push_back(step);
  }

  void Add() {
    const int kind = Between(1, 100);
    if (kind <= 52) return Calls();
    if (kind <= 72) return Transfers();
    if (kind <= 78) return live_.size() < 12 ? Split() : Simple(Step::Kind::kWait);
    if (kind <= 82) return live_.size() < 12 ? Create() : Simple(Step::Kind::kWait);
    if (kind <= 84) return live_.size() < 12 ? Shrink() : Simple(Step::Kind::kWait);
    if (kind <= 88 && live_.size() > 1) return Destroy(Between(1, static_cast<int>(live_.size()) - 1));
    if (kind <= 91) return Simple(Step::Kind::kFork);
    if (kind <= 94) return Simple(Step::Kind::kAsk);
    if (kind <= 96) return Simple(Step::Kind::kRegister);
    Simple(Step::Kind::kWait);
  }

  std::mt19937_64 random_;
  int ranks_;
  bool alone_;
  Lane lane_;
  std::vector<int> live_;
  std::vector<int> shrunk_;
};

}  // namespace

Plan Make(std::uint64_t seed) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15ull + 1);
  Plan plan;
  plan.ranks_per_process = random() % 4 == 0 ? 2 : 1;
  plan.processes =
      plan.ranks_per_process == 2 ? 1 + static_cast<int>(random() % 2) : 2 + static_cast<int>(random() % 3);
  const int lanes = random() % 2 ? 1 : 2 + static_cast<int>(random() % 2);
  const bool alone = lanes == 1 && plan.ranks_per_process == 1;
  for (int lane = 0; lane < lanes; ++lane) plan.lanes.push_back(Maker(random(), plan.ranks(), alone).Make());
  return plan;
}

}  // namespace random_program
