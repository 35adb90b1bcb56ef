#include "core/view/view.h"

#include <signal.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "core/model/text.h"
#include "core/reader/left_out.h"
#include "core/view/clocks.h"
#include "core/view/process_end.h"
#include "core/view/ranks.h"
#include "core/view/whole.h"
#include "core/view/witnessed.h"
#include "ncclwatch/format/fingerprint.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::diagnosis {
namespace {

using format::CommunicatorState;
using format::Observed;
using reader::BoxImage;
using reader::Call;

bool MayBeTaken(const Call& call) {
  if (functions::IsMpi(call.function) && (call.flags & format::kTookPart) != 0) return true;
  return call.result == format::kNoResult || reader::Taken(call.function, call.result);
}

std::int64_t LastRecord(const BoxImage& box) {
  std::int64_t last = box.left_out_until_ns;
  for (const Call& call : box.calls) last = std::max({last, call.entered_ns, call.returned_ns});
  return std::max(last, reader::LastSaid(box.words));
}

void ApplyExit(const reader::Observation& seen, ProcessOutcome* outcome) {
  if ((seen.exit_flags & format::kExitKnown) == 0) return;
  if (seen.exit_signal != 0) {
    outcome->signal = seen.exit_signal;
  } else {
    outcome->status = seen.exit_status;
  }
  outcome->core = (seen.exit_flags & format::kExitCore) != 0;
}

using Seen = std::unordered_map<std::uint32_t, std::vector<const reader::Observation*>>;  // by pid, in order of time

ProcessOutcome FateOf(const Seen& all_seen, const Process& process) {
  const BoxImage& box = *process.box;
  ProcessOutcome outcome;
  outcome.last_sign_ns = process.At(std::max(box.heartbeat_ns, LastRecord(box)));
  const auto of_pid = all_seen.find(box.pid);
  for (const reader::Observation* one : of_pid == all_seen.end() ? Seen::mapped_type() : of_pid->second) {
    const reader::Observation& seen = *one;
    if (!reader::IsAbout(seen, box)) continue;
    // It was only the way to its node that was lost, or its own leader knows better.
    const bool from_afar = seen.what == Observed::kLost || seen.what == Observed::kClosed;
    if (from_afar && (outcome.last_sign_ns > seen.at_ns || outcome.what == Observed::kGone)) continue;
    if (outcome.what == Observed::kGone &&
        seen.what == Observed::kGone) {  // a later leader saw it too: it knows no better when
      if (!outcome.exit_known()) ApplyExit(seen, &outcome);
      continue;
    }
    outcome.what = seen.what;
    outcome.observed_ns = seen.at_ns;
    outcome.signal.reset();
    outcome.status.reset();
    outcome.out_of_memory = (seen.exit_flags & format::kExitOutOfMemory) != 0;
    ApplyExit(seen, &outcome);
  }
  if (outcome.what == Observed::kRunning) outcome.what = Observed::kNothing;
  // Who looks reads the clock first, and may have to wait for a processor before it sees anything.
  if (outcome.what == Observed::kGone) outcome.observed_ns = std::max(outcome.observed_ns, outcome.last_sign_ns);
  outcome.hung_up =
      box.state == format::ProcessState::kExiting && box.last_words.written && box.last_words.signal == SIGHUP;
  if (!outcome.gone() || outcome.exit_known() || !box.last_words.written) return outcome;
  // Not seen how, but it said so itself.
  if (box.state == format::ProcessState::kExiting) outcome.status = box.last_words.exit_status;
  if (box.state == format::ProcessState::kCrashing) outcome.signal = box.last_words.signal;
  return outcome;
}

bool Newer(const Member& a, const Member& b) {
  const bool a_live = a.alive_in() || a.comm->state == CommunicatorState::kInitializing;
  const bool b_live = b.alive_in() || b.comm->state == CommunicatorState::kInitializing;
  return std::make_tuple(a_live, a.comm->created_ns) > std::make_tuple(b_live, b.comm->created_ns);
}

void SettleSize(CommView* comm) {
  std::map<std::uint32_t, int> votes;
  for (const Member& member : comm->members) {
    if (member.comm->size > 0) ++votes[member.comm->size];
  }
  int most = 0;
  for (const auto& [size, count] : votes) {
    if (count > most) comm->size = size, most = count;
  }
  comm->sizes_differ = votes.size() > 1;
}

// One entry a rank: of two claims to the same rank (a stale box, a second communicator under a colliding identity) the
// live, younger one stands.
void SettleMembers(CommView* comm) {
  std::vector<Member>& members = comm->members;
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    const auto rank = [](const Member& m) { return m.rank_known() ? std::uint64_t{m.comm->rank} : UINT64_MAX; };
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return a.rank_known() && Newer(a, b);
  });
  members.erase(std::unique(members.begin(), members.end(),
                            [](const Member& a, const Member& b) {
                              return a.rank_known() && b.rank_known() && a.comm->rank == b.comm->rank;
                            }),
                members.end());
}

// Of MPI: a rank that took part in the making, and got MPI_COMM_NULL.
bool WasLeftOut(const reader::Communicator& comm) {
  constexpr std::uint32_t kOut = format::kCommMpi | format::kCommRankUnknown;
  return (comm.flags & kOut) == kOut && comm.state == CommunicatorState::kDestroyed;
}

std::vector<CommView> MakeComms(const std::vector<Process>& processes) {
  std::unordered_map<std::uint64_t, CommView> by_id;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    for (const reader::Communicator& comm : processes[i].box->communicators) {
      if ((comm.flags & format::kCommIdentityUnknown) != 0 || comm.state == CommunicatorState::kFailed) continue;
      if (WasLeftOut(comm)) continue;
      CommView& view = by_id[comm.id];
      view.id = comm.id;
      view.parent = comm.parent;
      const bool own_ranks_alone = (comm.flags & (format::kCommInter | format::kCommBothGroups)) == format::kCommInter;
      if ((comm.flags & format::kCommGrown) != 0 || own_ranks_alone) view.comparable = false;
      if (view.label.empty()) view.label = comm.label;
      Member member;
      member.process = static_cast<int>(i);
      member.comm = &comm;
      member.box = processes[i].box;
      if (comm.left_out.end > 0) member.fetched = std::make_shared<Member::Fetched>();
      view.members.push_back(std::move(member));
    }
  }
  std::vector<CommView> comms;
  for (auto& [id, comm] : by_id) {
    SettleMembers(&comm);
    SettleSize(&comm);  // what a claim says that does not stand is no vote
    comms.push_back(std::move(comm));
  }
  std::sort(comms.begin(), comms.end(), [](const CommView& a, const CommView& b) {
    return std::make_tuple(b.size, b.members.size(), a.id) < std::make_tuple(a.size, a.members.size(), b.id);
  });
  CommunicatorNames names;
  for (const CommView& comm : comms) names.Add(comm.id, comm.label);
  for (CommView& comm : comms) comm.name = names.Long(comm.id);
  return comms;
}

// By position; of two records of one position (the first was refused and its position given back) the later one.
void Sort(std::vector<const Call*>* calls, bool unique) {
  const auto before = [](const Call* a, const Call* b) {
    return std::make_tuple(a->position, ~a->slot) < std::make_tuple(b->position, ~b->slot);
  };
  if (!std::is_sorted(calls->begin(), calls->end(), before)) std::sort(calls->begin(), calls->end(), before);
  if (!unique) return;
  const auto same = [](const Call* a, const Call* b) { return a->position == b->position; };
  calls->erase(std::unique(calls->begin(), calls->end(), same), calls->end());
}

void SortBySlot(std::vector<const Call*>* calls) {
  std::sort(calls->begin(), calls->end(), [](const Call* a, const Call* b) { return a->slot < b->slot; });
}

// Every ncclGroupStart and ncclGroupEnd between the outermost ones bears the group's number: open while more have
// started than ended.
std::unordered_set<std::uint64_t> OpenGroups(const BoxImage& box) {
  std::unordered_map<std::uint64_t, int> depth;
  for (const Call& call : box.calls) {
    if (call.group == 0) continue;
    if (call.function == functions::Function::ncclGroupStart) ++depth[call.group];
    if (call.function == functions::Function::ncclGroupEnd ||
        call.function == functions::Function::ncclGroupSimulateEnd) {
      --depth[call.group];
    }
  }
  std::unordered_set<std::uint64_t> open;
  for (const auto& [group, count] : depth) {
    if (count > 0) open.insert(group);
  }
  return open;
}

void FileCollective(const Call& call, const Process& process, Member* member) {
  if (!MayBeTaken(call)) {
    member->failed = &call;
  } else if ((call.flags & format::kEmpty) != 0) {
    member->empties.push_back(&call);
  } else if (call.returned_ns == 0 && process.open_groups.contains(call.group)) {
    member->entered = std::min(member->entered, call.position);
  } else if (call.position < member->comm->entered) {  // else given back, or this very instant not taken yet
    member->calls.push_back(&call);
  }
}

void File(const Call& call, const Process& process, Member* member) {
  if (IsMessage(call)) {
    if (MayBeTaken(call)) member->messages.push_back(&call);
  } else if (functions::IsProbe(call.function)) {
    member->probes.push_back(&call);
  } else if (functions::IsCollective(call.function)) {
    FileCollective(call, process, member);
  }
}

// A call that failed otherwise than for its arguments keeps its position, and nobody will ever meet it there.
void SettleFailure(Member* member) {
  if (member->failed == nullptr || member->failed->position >= member->entered) return;
  if (member->At(member->failed->position) == nullptr) member->entered = member->failed->position;
}

// By index in the table of the box; those of an earlier generation of an entry are not members.
class MemberOf {
 public:
  explicit MemberOf(const std::vector<Member*>& members) {
    for (Member* member : members) {
      if (member->comm->index >= by_index_.size()) by_index_.resize(member->comm->index + 1);
      by_index_[member->comm->index].push_back(member);
    }
  }
  Member* operator()(const Call& call) const {
    if (call.communicator >= by_index_.size()) return nullptr;
    for (Member* member : by_index_[call.communicator])
      if (member->comm->generation == call.generation) return member;
    return nullptr;
  }

 private:
  std::vector<std::vector<Member*>> by_index_;
};

void FileAllCalls(View* view) {
  std::vector<std::vector<Member*>> members(view->processes.size());
  for (CommView& comm : view->comms) {
    for (Member& member : comm.members) members[member.process].push_back(&member);
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    view->processes[i].open_groups = OpenGroups(*view->processes[i].box);
    FileCalls(&view->processes[i], members[i]);
  }
}

}  // namespace

std::string_view ReferenceBoot(const Snapshot& snapshot) {
  if (!snapshot.boot_id.empty()) return snapshot.boot_id;
  return snapshot.boxes.empty() ? std::string_view() : snapshot.boxes.front().boot_id;
}

std::vector<Process> MakeProcesses(const Snapshot& snapshot) {
  const Clocks clocks(snapshot.boxes, ReferenceBoot(snapshot));
  Seen seen;
  for (const reader::Observation& one : snapshot.observations) seen[one.pid].push_back(&one);
  std::vector<Process> processes;
  processes.reserve(snapshot.boxes.size());
  for (const BoxImage& box : snapshot.boxes) {
    Process process;
    process.box = &box;
    process.shift_ns = clocks.ShiftOf(box);
    process.outcome = FateOf(seen, process);
    processes.push_back(std::move(process));
  }
  std::sort(processes.begin(), processes.end(), [](const Process& a, const Process& b) {
    const auto key = [](const Process& p) {
      return std::make_tuple(static_cast<std::uint32_t>(p.box->rank), std::cref(p.box->host), p.box->pid,
                             p.box->start_time);
    };
    return key(a) < key(b);
  });
  OrderEnds(snapshot.ends, &processes);
  MarkFollowers(&processes);
  return processes;
}

void FileCalls(Process* process, const std::vector<Member*>& members) {
  const reader::BoxImage& box = *process->box;
  const bool restored_calls = !process->restored_calls.empty();
  for (Member* member : members) {
    member->history_whole = box.first_slot == 0 && box.torn == 0 && !process->cut_off;
    member->entered = member->comm->entered;
    member->left_out = restored_calls ? reader::LeftOut{} : member->comm->left_out;
    member->failed = nullptr;
    member->calls.clear();
    member->empties.clear();
    member->messages.clear();
    member->probes.clear();
  }
  const MemberOf member_of(members);
  for (const Call& call : box.calls)
    if (Member* member = member_of(call)) File(call, *process, member);
  for (const Call& call : process->restored_calls)
    if (Member* member = member_of(call)) File(call, *process, member);
  for (Member* member : members) {
    Sort(&member->calls, true);
    Sort(&member->empties, false);
    if (restored_calls) SortBySlot(&member->messages);
    SettleFailure(member);
  }
}

// 86: ended by this tool itself, NCCLWATCH_ON_FAULT=abort.
bool ProcessOutcome::polite() const {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || status == 86 || hung_up;
}

const Call* Member::At(std::uint64_t position) const {
  const Call* kept = Kept(position);
  return kept != nullptr || !left_out.Has(position) ? kept : Fetch(position);
}

const Call* Member::Kept(std::uint64_t position) const {
  const auto found = std::lower_bound(calls.begin(), calls.end(), position,
                                      [](const Call* call, std::uint64_t wanted) { return call->position < wanted; });
  return found != calls.end() && (*found)->position == position ? *found : nullptr;
}

const Call* Member::Fetch(std::uint64_t position) const {
  const auto [at, fresh] = fetched->try_emplace(position);
  if (fresh && !box->dump) at->second = reader::ReadCollective(*box, *comm, position);
  return at->second ? &*at->second : nullptr;
}

bool Member::Outstanding(const Call& call) const {
  if (functions::IsMpi(call.function)) return call.BlocksCaller();
  return (call.flags & format::kMarked) != 0 && !comm->Finished(call.ticket);
}

bool Member::alive_in() const {
  return comm->state == CommunicatorState::kReady || comm->state == CommunicatorState::kFinalizing;
}

const Member* CommView::OfRank(std::uint32_t rank) const {
  const auto found = std::lower_bound(members.begin(), members.end(), rank, [](const Member& m, std::uint32_t wanted) {
    return m.rank_known() && m.comm->rank < wanted;
  });
  return found != members.end() && found->rank_known() && found->comm->rank == rank ? &*found : nullptr;
}

const CommView* View::CommOf(std::uint64_t id) const {
  const auto found = std::find_if(comms.begin(), comms.end(), [&](const CommView& comm) { return comm.id == id; });
  return found == comms.end() ? nullptr : &*found;
}

const CommView* View::CommOf(const Process& owner, std::uint32_t index, std::uint32_t generation) const {
  for (const CommView& comm : comms)
    for (const Member& each : comm.members)
      if (&process(each) == &owner && each.comm->index == index && each.comm->generation == generation) return &comm;
  return nullptr;
}

int View::JobRank(const CommView& comm, std::uint32_t rank) const {
  return rank < comm.job_ranks.size() ? comm.job_ranks[rank] : -1;
}

// Of MPI: a rank that has come back from a call has done its part of it, and of those before it what it waits for.
std::uint64_t View::UnfinishedOfMpi(const Member& member) {
  for (const Call* call : member.calls)
    if (call->BlocksCaller()) return call->position;
  return member.entered;
}

std::uint64_t View::Unfinished(const Member& member) const {
  if ((member.comm->flags & format::kCommMpi) != 0) return UnfinishedOfMpi(member);
  // Newest first: a finished call vouches for the older ones, a collective cannot end before they have begun
  // everywhere.
  for (auto call = member.calls.rbegin(); call != member.calls.rend(); ++call) {
    if (((*call)->flags & format::kMarked) != 0 && member.comm->Finished((*call)->ticket)) return (*call)->position + 1;
  }
  if (member.left_out.end > 0) return std::max(member.left_out.finished, member.left_out.first);
  if (member.calls.empty()) {
    const reader::LastCall& last = member.comm->last;
    const std::uint64_t entered = member.entered;
    if ((last.flags & format::kMarked) == 0 || member.comm->tickets == 0) return entered == 0 ? 0 : entered - 1;
    return member.comm->Finished(member.comm->tickets - 1) || entered == 0 ? entered : entered - 1;
  }
  return member.calls.front()->position;
}

bool IsMessage(const Call& call) { return functions::IsMessage(call.function); }

bool IsError(const Call& call) {
  return call.result != format::kNoResult && !reader::Taken(call.function, call.result);
}

std::uint64_t BytesOf(const Call& call) {
  return functions::IsMpi(call.function) ? call.bytes : call.count * functions::DatatypeBytes(call.dtype);
}

View MakeView(const Snapshot& snapshot) {
  View view;
  view.snapshot = &snapshot;
  view.now_ns = snapshot.now_ns;
  view.realtime_minus_monotonic_ns = Clocks(snapshot.boxes, ReferenceBoot(snapshot)).realtime_minus_monotonic_ns();
  view.processes = MakeProcesses(snapshot);
  view.comms = MakeComms(view.processes);
  FileAllCalls(&view);
  PutBack(&view);
  AssignRanks(&view);
  return view;
}

}  // namespace ncclwatch::diagnosis
