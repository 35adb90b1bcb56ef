#include "analyzer/shrink/shrink.h"

#include <fmt/format.h>

#include <utility>

#include "analyzer/shrink/minimize.h"
#include "analyzer/shrink/units.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::uint64_t kMostShrunk = 2'000'000;  // calls: each try goes through all that is left

class Shrinker {
 public:
  explicit Shrinker(Shrunk* shrunk) : shrunk_(*shrunk) {}

  // A long run of healthy calls first, which makes everything else quick.
  void Run() {
    std::size_t before = SIZE_MAX;
    while (std::exchange(before, Size()) != Size()) {
      TakeUnits(CallUnits(shrunk_.job));
      TakeRanks();
      TakeUnits(CommunicatorUnits(shrunk_.job));
    }
  }

 private:
  std::size_t Size() const { return shrunk_.calls() + shrunk_.job.was.size(); }

  bool ShowsIt(const Job& job) {
    ++shrunk_.tried;
    return Shows(FaultOf(job), shrunk_.fault);
  }

  void TakeUnits(const std::vector<Unit>& units) {
    const auto without = [&](const std::vector<std::size_t>& kept) {
      CallSet gone;
      std::size_t next = 0;
      for (std::size_t unit = 0; unit < units.size(); ++unit)
        if (next < kept.size() && kept[next] == unit)
          ++next;
        else
          gone.insert(units[unit].begin(), units[unit].end());
      return WithoutCalls(shrunk_.job, gone);
    };
    const auto kept = Minimize(units.size(), [&](const auto& some) { return ShowsIt(without(some)); });
    shrunk_.job = without(kept);
  }

  void TakeRanks() {
    const std::size_t ranks = shrunk_.job.was.size();
    const auto without = [&](const std::vector<std::size_t>& kept) {
      std::set<int> gone;
      for (std::size_t rank = 0; rank < ranks; ++rank) gone.insert(static_cast<int>(rank));
      for (const std::size_t rank : kept) gone.erase(static_cast<int>(rank));
      return WithoutRanks(shrunk_.job, gone);
    };
    const auto kept = Minimize(ranks, [&](const auto& some) { return ShowsIt(without(some)); });
    shrunk_.job = without(kept);
  }

  Shrunk& shrunk_;
};

// Empty: it can be shrunk.
std::string WhyNot(const std::optional<Fault>& fault, const diagnosis::Diagnosis& verdict) {
  if (verdict.clean()) return "the recorded job was healthy: there is nothing to show";
  const diagnosis::Kind kind = verdict.findings.front().kind;
  if (!CanBeShown(kind))
    return fmt::format("a finding of kind {} does not follow from the order of calls: it cannot be shrunk",
                       diagnosis::Name(kind));
  if (!fault)
    return fmt::format("the recorded calls complete on the model: it does not know {}", diagnosis::Name(kind));
  if (fault->kind != kind)
    return fmt::format("the verdict on the model is {}, that of the recording {}: it cannot be shrunk",
                       diagnosis::Name(fault->kind), diagnosis::Name(kind));
  return {};
}

}  // namespace

std::size_t Shrunk::calls() const {
  std::size_t calls = 0;
  for (const reader::BoxImage& box : job.boxes) calls += box.calls.size();
  return calls;
}

std::size_t Shrunk::communicators() const {
  std::set<std::uint64_t> used;
  for (const reader::BoxImage& box : job.boxes) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> on;
    for (const reader::Call& call : box.calls) on.insert({call.communicator, call.generation});
    for (const reader::Communicator& one : box.communicators)
      if (on.contains({one.index, one.generation})) used.insert(one.id);
  }
  return used.size();
}

absl::StatusOr<Shrunk> Shrink(const Recording& recording, const diagnosis::Diagnosis& verdict) {
  Shrunk shrunk;
  auto job = LoadJob(recording, kMostShrunk);
  if (!job.ok()) return job.status();
  shrunk.job = *std::move(job);
  const auto fault = FaultOf(shrunk.job);
  if (const std::string why = WhyNot(fault, verdict); !why.empty()) return absl::FailedPreconditionError(why);
  shrunk.fault = *fault;
  shrunk.ranks_before = shrunk.job.was.size();
  shrunk.calls_before = shrunk.calls();
  shrunk.communicators_before = shrunk.communicators();
  Shrinker(&shrunk).Run();
  shrunk.fault = *FaultOf(shrunk.job);
  return shrunk;
}

}  // namespace ncclwatch::analyzer
