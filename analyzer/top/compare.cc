#include "analyzer/top/compare.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace ncclwatch::analyzer::top {
namespace {

// What is less may be the order in which processes happened to be woken.
constexpr double kLeastLate_s = 100e-6;
// In a job that goes on every look finds some ranks one collective ahead of the others.
constexpr double kMoment_s = 1;

void SortByRank(Job* job) {
  std::vector<std::size_t> order(job->processes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const Process &left = job->processes[a], &right = job->processes[b];
    return std::tie(left.rank, left.host, left.pid) < std::tie(right.rank, right.host, right.pid);
  });
  std::vector<std::size_t> place(order.size());
  std::vector<Process> sorted;
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    sorted.push_back(std::move(job->processes[order[i]]));
  }
  job->processes = std::move(sorted);
  for (Member& member : job->members) member.process = place[member.process];
  std::stable_sort(job->members.begin(), job->members.end(),
                   [](const Member& a, const Member& b) { return a.process < b.process; });
}

// All have made as many calls: the last one to call its newest, where one clock tells.
void SetLate(const Job& job, const std::vector<Member*>& members, Communicator* communicator) {
  const bool one_clock = std::all_of(members.begin(), members.end(),
                                     [&](const Member* one) { return one->clock == members.front()->clock; });
  if (!one_clock || members.size() < 2 || members.front()->collectives == 0) return;
  std::vector<const Member*> by_time(members.begin(), members.end());
  std::sort(by_time.begin(), by_time.end(), [](const auto* a, const auto* b) { return a->called_ns < b->called_ns; });
  const Member& last = *by_time.back();
  const double late_s = static_cast<double>(last.called_ns - by_time[(by_time.size() - 1) / 2]->called_ns) / 1e9;
  if (late_s < kLeastLate_s) return;
  communicator->late_s = late_s;
  communicator->last = {job.processes[last.process].rank};
}

Communicator CompareMembers(const Job& job, const std::vector<Member*>& members) {
  const auto [least, most] = std::minmax_element(
      members.begin(), members.end(), [](const auto* a, const auto* b) { return a->collectives < b->collectives; });
  Communicator communicator{.id = members.front()->communicator,
                            .label = members.front()->label,
                            .size = members.front()->size,
                            .seen = static_cast<std::uint32_t>(members.size()),
                            .position = (*most)->position,
                            .last = {},
                            .ahead = {},
                            .behind = (*most)->collectives - (*least)->collectives};
  if (communicator.behind == 0) SetLate(job, members, &communicator);
  for (Member* const member : members) {
    member->behind = (*most)->collectives - member->collectives;
    member->lags = member->behind > 1 || (member->behind == 1 && member->since_s >= kMoment_s);
    const int rank = job.processes[member->process].rank;
    if (member->lags && member->behind == communicator.behind) communicator.last.push_back(rank);
    if (member->behind == 0) communicator.ahead.push_back(rank);
  }
  if (communicator.last.size() * 2 <= members.size()) communicator.ahead.clear();
  return communicator;
}

void SetNotShown(Job* job) {
  if (job->expected == 0 && !job->communicators.empty())
    job->expected = static_cast<int>(job->communicators.front().size);
  std::set<int> seen;
  for (const Process& process : job->processes) seen.insert(process.rank);
  if (seen.contains(-1)) return;
  for (int rank = 0; rank < job->expected; ++rank)
    if (!seen.contains(rank)) job->not_shown.push_back(rank);
}

}  // namespace

void Compare(Job* job) {
  SortByRank(job);
  std::map<std::uint64_t, std::vector<Member*>> groups;
  for (Member& member : job->members)
    if (member.comparable) groups[member.communicator].push_back(&member);
  for (const auto& [id, members] : groups) job->communicators.push_back(CompareMembers(*job, members));
  std::stable_sort(job->communicators.begin(), job->communicators.end(),
                   [](const auto& a, const auto& b) { return a.size > b.size; });
  SetNotShown(job);
}

}  // namespace ncclwatch::analyzer::top
