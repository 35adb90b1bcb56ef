// What went wrong with the machines of the job, as evidence beside a verdict: each leader has its own looked at, the
// hub hears of all.
#include <algorithm>
#include <utility>

#include "core/slow/machine.h"
#include "watchdog/watch/leader/leader.h"

namespace ncclwatch::watch {
namespace {

constexpr std::size_t kMostMachines = 8192;

}  // namespace

void Leader::FollowMachines(std::int64_t now_ns) {
  machine_.LookIfDue(now_ns, published_ || round_ || stall_looks_ > 0 || slow_.HasFindings());
  bool news = false;
  if (std::optional<reader::MachineSample> own = machine_.TakeNews()) {
    if (!DiagnosesItself()) job_.TellMachine(reader::Format(*own, /*with_figures=*/false));
    news = KeepMachine(std::move(*own));
  }
  while (const std::optional<std::string> body = job_.TakeMachine())
    if (std::optional<reader::MachineSample> look = reader::ParseMachine(*body)) news |= KeepMachine(std::move(*look));
  if (news) RetellWithMachines();
}

// True where there are events that were not known.
bool Leader::KeepMachine(reader::MachineSample look) {
  look.counters.clear();
  look.states.clear();
  const auto known = std::find_if(machines_.begin(), machines_.end(),
                                  [&](const reader::MachineSample& one) { return one.host == look.host; });
  if (known == machines_.end()) {
    if (machines_.size() == kMostMachines) return false;
    machines_.push_back(std::move(look));
    return !machines_.back().events.empty();
  }
  const auto newest = [](const reader::MachineSample& of) { return of.events.empty() ? 0 : of.events.back().seen_ns; };
  const bool news = newest(look) > newest(*known);
  *known = std::move(look);
  return news;
}

// The standing verdict was written before the machine had been looked at. One that the hub told, the hub tells again.
void Leader::RetellWithMachines() {
  const std::int64_t at_ns = journal_.leader_state().verdict_at_ns;
  if (!reported_ || reported_->clean() || at_ns == 0 || IsHubsVerdict()) return;
  if (WriteVerdict(*reported_, at_ns)) SayToAll(at_ns);
}

}  // namespace ncclwatch::watch
