#include "analyzer/player/script.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace ncclwatch::analyzer {
namespace {

using functions::Family;
using player::Communicator;

constexpr std::uint32_t kCannotBeMade =
    format::kCommInter | format::kCommWindow | format::kCommFile | format::kCommForeign | format::kCommIdentityUnknown;

class RecordedScript : public player::Script {
 public:
  RecordedScript(const RecordedProgram& program, int own_rank, int loops)
      : program_(program), loops_(loops), pieces_(std::make_unique<PieceReader>(*program.process(own_rank))) {
    rank = own_rank;
    ranks = PlayingRanks(program);
    AddCommunicators();
  }

  bool Next(std::vector<player::Call>* calls) override {
    Piece piece;
    std::vector<reader::Failure> failures;
    while (!pieces_->Next(&piece, &failures) && failures.empty()) {
      if (++loop_ == loops_) return false;
      pieces_ = std::make_unique<PieceReader>(*program_.process(rank));
      before_ns_ = 0;
      awaited_.clear();
      over_at_once_.clear();
    }
    if (!failures.empty()) {
      failure = failures.front().path + ": " + failures.front().reason;
      return false;
    }
    Add(piece, calls);
    return true;
  }

 private:
  // The program's processes know what each communicator is; those of other ranks are not looked at.
  void AddCommunicators() {
    std::map<std::uint64_t, IndexedCommunicator> known;
    for (int other = 0; other < ranks; ++other)
      for (IndexedCommunicator& one : program_.process(other)->communicators()) known.emplace(one.id, std::move(one));
    for (std::size_t i = 0; i < program_.comms.size(); ++i) {
      Communicator& made = communicators.emplace_back();
      const simulation::Comm& comm = program_.comms[i];
      made.members = comm.members;
      made.own = comm.RankOf(rank);
      made.label = comm.label;
      made.color = comm.color;
      const std::uint64_t id = program_.comm_ids()[i];
      made.is = WhatIs(known.at(id), program_.comm_of(id) >= 0, comm);
      if (made.is == Communicator::Is::kWorld) thread_level = made.color;
    }
  }

  Communicator::Is WhatIs(const IndexedCommunicator& one, bool chosen, const simulation::Comm& comm) const {
    using Is = Communicator::Is;
    const bool mpi = (one.flags & format::kCommMpi) != 0;
    const bool absent = std::any_of(comm.members.begin(), comm.members.end(), [&](int each) { return each >= ranks; });
    if (!chosen || absent || (one.flags & kCannotBeMade) != 0) return Is::kElse;
    const bool parent_too = one.parent != 0 && program_.comm_of(one.parent) >= 0;
    if (!mpi) return one.parent == 0 || parent_too ? Is::kMade : Is::kOfMembers;
    if (one.parent == 0)
      return static_cast<int>(comm.members.size()) == ranks ? Is::kWorld
             : comm.members.size() == 1                     ? Is::kSelf
                                                            : Is::kOfMembers;
    // What its members alone made has no place among its parent's collectives.
    return parent_too && one.parent_ordinal != format::kNotMatched ? Is::kMade : Is::kOfMembers;
  }

  // What begins stands in the first loop alone, what ends in the last one.
  bool Repeats(const functions::FunctionInfo& info) const {
    const bool first = loop_ == 0, last = loop_ + 1 == loops_;
    using functions::Function;
    if (info.family == Family::kCreation) return first;
    if (info.family == Family::kLifecycle) return last;
    if (info.family != Family::kLife) return true;
    return info.function == Function::MPI_Init || info.function == Function::MPI_Init_thread ? first : last;
  }

  using OnCommunicators = absl::flat_hash_map<std::pair<std::uint32_t, std::uint32_t>, const reader::Communicator*>;
  static OnCommunicators ByIndex(const Piece& piece) {
    OnCommunicators on;
    for (const reader::Communicator& one : piece.communicators) on[{one.index, one.generation}] = &one;
    return on;
  }

  void Add(Piece& piece, std::vector<player::Call>* calls) {
    const OnCommunicators on = ByIndex(piece);
    for (const reader::Call& call : piece.calls) {
      player::Call& added = calls->emplace_back();
      added.as = call;
      if (before_ns_ == 0 && loop_ == 0)
        added.before_ns = program_.Begins(rank);
      else if (before_ns_ != 0 && program_.IsOfWantedSteps(program_.process(rank)->rank(), call.slot))
        added.before_ns = program_.Gap(rank, std::max<std::int64_t>(0, call.entered_ns - before_ns_));
      before_ns_ = std::max(before_ns_, call.returned_ns == 0 ? call.entered_ns : call.returned_ns);
      const auto found = on.find({call.communicator, call.generation});
      const reader::Communicator* const at = found == on.end() ? nullptr : found->second;
      added.left_out = program_.LeavesOut(program_.process(rank)->rank(), call, at ? at->id : 0);
      if (at) SetCommunicators(*at, &added);
      if (const reader::CallParts* const parts = piece.PartsOf(call.slot)) {
        added.sends = parts->sends;
        added.receives = parts->receives;
      }
      const functions::FunctionInfo* const info = functions::Find(call.function);
      SetRequests(call, info && info->family == Family::kCompletion, &added.ends);
      added.left_out = added.left_out || (info && !Repeats(*info)) || WasRefused(call);
    }
  }

  void SetRequests(const reader::Call& call, bool completes, std::vector<std::uint64_t>* ends) {
    const bool request = (call.flags & (format::kRequest | format::kForgotten)) == format::kRequest;
    if (request && call.waiter != 0) awaited_[call.waiter - 1].push_back(call.slot);
    if (request && call.waiter == 0 && call.completed_ns != 0) over_at_once_.push_back(call.slot);
    if (const auto awaited = awaited_.find(call.slot); awaited != awaited_.end()) {
      *ends = std::move(awaited->second);
      awaited_.erase(awaited);
    }
    if (!completes) return;
    ends->insert(ends->end(), over_at_once_.begin(), over_at_once_.end());
    over_at_once_.clear();
  }

  void SetCommunicators(const reader::Communicator& at, player::Call* added) {
    const reader::Call& call = added->as;
    const functions::FunctionInfo* const info = functions::Find(call.function);
    const int comm = program_.comm_of(at.id);
    if (comm >= 0 && communicators[static_cast<std::size_t>(comm)].own >= 0) added->comm = comm;
    const bool inits = info && info->family == Family::kCreation && !functions::IsMpi(call.function) &&
                       call.function != functions::Function::ncclCommSplit;
    if (info && info->family == Family::kCreation && (inits || call.position != format::kNotMatched))
      added->made = inits ? added->comm : program_.ChildOf(at.id, call.position, rank);
    if (inits && added->made >= 0 && at.size != communicators[static_cast<std::size_t>(added->made)].members.size())
      added->claimed_size = at.size;
    if (!program_.stood_still() || functions::IsMpi(call.function)) return;
    if (!IsUnfinished(at, call) || !held_streams_.insert(call.stream).second) return;
    added->never_begins = NeverBegins(at, call);
    added->never_ends = !added->never_begins && !IsNeverBegun(at.id, call.position);
  }

  static bool NeverBegins(const reader::Communicator& at, const reader::Call& call) {
    return (call.flags & format::kStartMarked) != 0 && !at.Started(call.start);
  }
  static bool IsUnfinished(const reader::Communicator& at, const reader::Call& call) {
    return NeverBegins(at, call) || ((call.flags & format::kMarked) != 0 && !at.Finished(call.ticket));
  }

  // By some rank's GPU, though nothing before it held its stream: no other rank can end it.
  bool IsNeverBegun(std::uint64_t comm, std::uint64_t position) {
    if (!never_begun_) {
      never_begun_.emplace();
      for (int other = 0; other < ranks; ++other) AddNeverBegun(other);
    }
    return never_begun_->contains({comm, position});
  }

  // Such calls are among the newest.
  void AddNeverBegun(int other) {
    constexpr std::uint64_t kNewest = 16384;
    const ProcessRecording& process = *program_.process(other);
    PieceReader newest(process);
    newest.wants = [&](const SegmentIndex& index) { return index.header.end_slot + kNewest > process.process().head; };
    std::set<std::uint64_t> held;
    std::vector<reader::Failure> reported_by_its_rank;
    for (Piece piece; newest.Next(&piece, &reported_by_its_rank);) {
      const OnCommunicators on = ByIndex(piece);
      for (const reader::Call& call : piece.calls) {
        const auto at = on.find({call.communicator, call.generation});
        if (at == on.end() || functions::IsMpi(call.function) || !IsUnfinished(*at->second, call)) continue;
        if (held.insert(call.stream).second && NeverBegins(*at->second, call))
          never_begun_->emplace(at->second->id, call.position);
      }
    }
  }

  const RecordedProgram& program_;
  const int loops_;
  int loop_ = 0;
  std::unique_ptr<PieceReader> pieces_;
  std::int64_t before_ns_ = 0;
  absl::flat_hash_map<std::uint64_t, std::vector<std::uint64_t>> awaited_;  // by the slot of the call that waits
  // MPI gives one handle to operations that are over at once: no record tells which call ended which of them.
  std::vector<std::uint64_t> over_at_once_;
  std::set<std::uint64_t> held_streams_;  // the GPU has not finished a call there
  std::optional<std::set<std::pair<std::uint64_t, std::uint64_t>>> never_begun_;  // communicator, position
};

}  // namespace

std::unique_ptr<player::Script> ScriptOf(const RecordedProgram& program, int rank, int loops) {
  return std::make_unique<RecordedScript>(program, rank, loops);
}

int PlayingRanks(const RecordedProgram& program) {
  int ranks = 0;
  while (ranks < program.ranks && program.process(ranks)) ++ranks;
  return ranks;
}

}  // namespace ncclwatch::analyzer
