#include "analyzer/shrink/settle.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/player/script.h"
#include "analyzer/replay/fates.h"
#include "core/calls/mpi_message.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Family;
using functions::Function;
using reader::Call;

// ---- what became of the processes -----------------------------------------------------------------------------------

std::int64_t LatestNs(const Job& job) {
  std::int64_t latest_ns = 0;
  for (const reader::BoxImage& box : job.boxes)
    for (const Call& call : box.calls)
      latest_ns = std::max(latest_ns, std::max(call.entered_ns, call.returned_ns) + box.realtime_minus_monotonic_ns);
  return latest_ns;
}

std::int64_t VerdictNs(const Job& job) {
  std::int64_t verdict_ns = 0;
  for (const reader::BoxImage& box : job.boxes)
    if (box.leader_state.verdict_at_ns != 0)
      verdict_ns = std::max(verdict_ns, box.leader_state.verdict_at_ns + box.realtime_minus_monotonic_ns);
  return verdict_ns;
}

bool EndsProcesses(diagnosis::Kind kind) {
  using diagnosis::Kind;
  return kind == Kind::kDeadRank || kind == Kind::kEarlyExit || kind == Kind::kFrozenProcess;
}

reader::Observation SeenOf(const reader::BoxImage& box, format::Observed what, std::int64_t at_ns) {
  reader::Observation seen;
  seen.at_ns = at_ns;
  seen.pid = box.pid;
  seen.start_time = box.start_time;
  seen.rank = box.rank;
  seen.what = what;
  return seen;
}

bool IsSeen(const Job& job, const reader::BoxImage& box) {
  return std::any_of(job.boxes.begin(), job.boxes.end(), [&](const reader::BoxImage& by) {
    return std::any_of(by.observations.begin(), by.observations.end(),
                       [&](const auto& seen) { return SameProcess(seen, box); });
  });
}

// What Fates takes into account is what was seen before the verdict, so that lies after everything that is left.
void SettleEnds(const diagnosis::Finding& cause, Job* job) {
  const auto ended = [&](int rank) {
    return EndsProcesses(cause.kind) &&
           std::find(cause.culprits.begin(), cause.culprits.end(), rank) != cause.culprits.end();
  };
  // A standstill that only its heartbeat shows.
  for (reader::BoxImage& box : job->boxes)
    if (cause.kind == diagnosis::Kind::kFrozenProcess && ended(box.rank) && !IsSeen(*job, box))
      box.observations.push_back(SeenOf(box, format::Observed::kStopped, box.heartbeat_ns));
  std::set<std::pair<std::uint32_t, std::uint64_t>> left;  // processes that go on
  std::int64_t latest_ns = std::max(LatestNs(*job), VerdictNs(*job));
  for (reader::BoxImage& box : job->boxes) {
    if (!ended(box.rank)) {
      left.insert({box.pid, box.start_time});
      box.last_words = {};
      box.state = format::ProcessState::kRunning;
    } else if (box.last_words.written) {
      latest_ns = std::max(latest_ns, box.last_words.at_ns + box.realtime_minus_monotonic_ns);
    }
  }
  for (reader::BoxImage& box : job->boxes) {
    std::erase_if(box.observations, [&](const auto& seen) { return left.contains({seen.pid, seen.start_time}); });
    for (const reader::Observation& seen : box.observations)
      latest_ns = std::max(latest_ns, seen.at_ns + box.realtime_minus_monotonic_ns);
  }
  for (reader::BoxImage& box : job->boxes)
    box.leader_state.verdict_at_ns = latest_ns + 1 - box.realtime_minus_monotonic_ns;
}

// ---- GPUs -----------------------------------------------------------------------------------------------------------

enum class Held { kEnds, kBegins };  // what of the call its GPU never does
using HeldCalls = std::map<std::pair<int, std::uint64_t>, Held>;

// By job rank and slot: the calls before which the program puts work that never ends.
HeldCalls HeldOf(const Job& job) {
  HeldCalls held;
  const Recording recording = Recording::Of(job.boxes);
  const auto program = RecordedProgram::Make(recording, {}, {});
  if (!program.ok()) return held;
  for (int rank = 0; rank < PlayingRanks(**program); ++rank) {
    const auto script = ScriptOf(**program, rank, 1);
    std::vector<player::Call> calls;
    while (script->Next(&calls)) {
      for (const player::Call& call : calls)
        if (call.never_begins || call.never_ends)
          held[{(*program)->process(rank)->rank(), call.as.slot}] = call.never_begins ? Held::kBegins : Held::kEnds;
      calls.clear();
    }
  }
  return held;
}

void SettleGpu(const HeldCalls& held, reader::BoxImage* box) {
  constexpr std::uint64_t kNoTicket = UINT64_MAX;
  for (reader::Communicator& one : box->communicators) {
    if ((one.flags & format::kCommMpi) != 0) continue;
    one.aborted_ns = 0;
    one.marks.fill(kNoTicket);
    one.starts.fill(kNoTicket - 1);
  }
  for (Call& call : box->calls) {
    if (functions::IsMpi(call.function)) continue;
    const auto found = held.find({box->rank, call.slot});
    call.ticket = found != held.end() && found->second == Held::kEnds ? kNoTicket : 0;
    call.start = found != held.end() && found->second == Held::kBegins ? kNoTicket : 0;
  }
}

// ---- calls ----------------------------------------------------------------------------------------------------------

// What it took is known, and the program's receive is to take the same.
void SettleWildcard(Call* call) {
  const bool over = call->returned_ns != 0 && ((call->flags & format::kRequest) == 0 || call->completed_ns != 0);
  const bool took = diagnosis::IsReceive(*call) ? call->position != format::kNotMatched && over
                                                : functions::IsProbe(call->function) && over;
  if (took && call->root >= 0) call->flags &= ~static_cast<std::uint32_t>(format::kAnySource | format::kAnyTag);
}

std::set<std::uint64_t> AwaitedBy(const reader::BoxImage& box) {
  std::set<std::uint64_t> waiters;  // slot + 1
  for (const Call& call : box.calls)
    if ((call.flags & (format::kRequest | format::kForgotten)) == format::kRequest && call.waiter != 0)
      waiters.insert(call.waiter);
  return waiters;
}

bool IsUnjudgedNccl(const Call& call, Family family) {
  switch (family) {
    case Family::kGroup:
    case Family::kCreation:
    case Family::kCollective:
    case Family::kRooted:
    case Family::kPointToPoint: return false;
    default: return call.function != Function::ncclCommDestroy;
  }
}

bool IsUnjudgedMpi(const Call& call, Family family) {
  switch (family) {
    case Family::kCollective:
    case Family::kRooted:
    case Family::kPointToPoint: return false;
    // Which of several ends is the library's choice.
    case Family::kCompletion: return (call.flags & format::kAnyDoes) != 0 && call.count > 1;
    case Family::kCreation: return functions::WithSmallCounts(call.function) == Function::MPI_Comm_create_group;
    default: return call.function != Function::MPI_Finalize;
  }
}

}  // namespace

bool SpeaksMpi(const Job& job) {
  return std::any_of(job.boxes.begin(), job.boxes.end(), [](const reader::BoxImage& box) {
    return std::any_of(box.calls.begin(), box.calls.end(),
                       [](const Call& call) { return functions::IsMpi(call.function); });
  });
}

bool SpeaksNccl(const Job& job) {
  return std::any_of(job.boxes.begin(), job.boxes.end(), [](const reader::BoxImage& box) {
    return std::any_of(box.calls.begin(), box.calls.end(), [](const Call& call) {
      return call.communicator != format::kNoCommunicator && !functions::IsMpi(call.function);
    });
  });
}

void Settle(const diagnosis::Finding& cause, Job* job) {
  SettleEnds(cause, job);
  const HeldCalls held = cause.kind == diagnosis::Kind::kDeviceStall ? HeldOf(*job) : HeldCalls();
  for (reader::BoxImage& box : job->boxes) {
    SettleGpu(held, &box);
    for (Call& call : box.calls) SettleWildcard(&call);
  }
}

CallSet UnfinishedOfEnded(const Job& job) {
  const Fates fates(Recording::Of(job.boxes));
  CallSet unfinished;
  for (std::size_t box = 0; box < job.boxes.size(); ++box) {
    if (!fates.Leaves(job.boxes[box])) continue;
    for (const Call& call : job.boxes[box].calls)
      if (call.returned_ns == 0) unfinished.insert({box, call.slot});
  }
  return unfinished;
}

CallSet Unjudged(const Job& job) {
  CallSet unjudged;
  for (std::size_t box = 0; box < job.boxes.size(); ++box)
    for (const Call& call : job.boxes[box].calls) {
      const functions::FunctionInfo* const info = functions::Find(call.function);
      const bool mpi = functions::IsMpi(call.function);
      if (call.returned_ns != 0 || (mpi && (call.flags & format::kPolls) != 0)) continue;
      if (!info || (mpi ? IsUnjudgedMpi(call, info->family) : IsUnjudgedNccl(call, info->family)))
        unjudged.insert({box, call.slot});
    }
  return unjudged;
}

std::string TextOf(const Job& job, const CallSet& calls) {
  if (calls.empty()) return "no call";
  const auto& [box, slot] = *calls.begin();
  for (const Call& call : job.boxes[box].calls)
    if (call.slot == slot)
      return fmt::format("{} (rank {}, seq {})", functions::FullName(call.function),
                         job.was[static_cast<std::size_t>(job.boxes[box].rank)], slot);
  return "a call";
}

Job WithoutIdleWaits(Job job) {
  CallSet idle;
  for (std::size_t box = 0; box < job.boxes.size(); ++box) {
    const std::set<std::uint64_t> awaited = AwaitedBy(job.boxes[box]);
    for (const Call& call : job.boxes[box].calls) {
      const functions::FunctionInfo* const info = functions::Find(call.function);
      const bool waits = info && info->family == Family::kCompletion && call.returned_ns == 0;
      if (waits && !awaited.contains(call.slot + 1)) idle.insert({box, call.slot});
    }
  }
  return idle.empty() ? job : WithoutCalls(job, idle);
}

Job WithLeaving(Job job, int rank) {
  const auto box = std::find_if(job.boxes.begin(), job.boxes.end(), [&](const auto& one) { return one.rank == rank; });
  if (box == job.boxes.end() || box->calls.empty()) return job;
  if (SpeaksMpi(job)) {
    Call end;
    end.slot = box->calls.back().slot + 1;
    end.entered_ns = std::max(box->calls.back().entered_ns, box->calls.back().returned_ns) + 1;
    end.function = Function::MPI_Finalize;
    end.thread = box->calls.front().thread;
    box->calls.push_back(end);
    box->head = end.slot + 1;
    return job;
  }
  const std::int64_t verdict_ns = VerdictNs(job);
  box->state = format::ProcessState::kExiting;
  box->last_words = {};
  box->last_words.written = true;
  box->last_words.at_ns = verdict_ns - box->realtime_minus_monotonic_ns;
  reader::BoxImage& first = job.boxes.front();
  reader::Observation seen = SeenOf(*box, format::Observed::kGone, verdict_ns - first.realtime_minus_monotonic_ns);
  seen.exit_flags = format::kExitKnown;
  first.observations.push_back(seen);
  return job;
}

}  // namespace ncclwatch::analyzer
