#include "analyzer/replay/translate.h"

#include <algorithm>
#include <utility>

#include "core/calls/mpi_message.h"
#include "ncclwatch/functions/pattern.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Family;
using functions::Function;
using reader::Call;
using simulation::Do;
using simulation::Op;

constexpr int kCallsAtOnce = 64;

bool IsPersistentInit(Function function) {
  return functions::FullName(function).find("_init") != std::string_view::npos;
}

bool IsExchange(Function function) { return functions::FullName(function).find("endrecv") != std::string_view::npos; }

// A damaged record may have any times.
std::int64_t Between(std::int64_t from_ns, std::int64_t to_ns) {
  std::int64_t between_ns = 0;
  if (__builtin_sub_overflow(to_ns, from_ns, &between_ns)) between_ns = to_ns < from_ns ? 0 : simulation::kLongest;
  return std::clamp<std::int64_t>(between_ns, 0, simulation::kLongest);
}

std::int64_t InsideNs(const Call& call) {
  return call.returned_ns == 0 ? 0 : Between(call.entered_ns, call.returned_ns);
}

// Nothing of it can be told from a local call: the members alone make it, or ranks of other jobs take part.
bool MadeByMembersAlone(Function function) {
  switch (functions::WithSmallCounts(function)) {
    case Function::MPI_Comm_create_group:
    case Function::MPI_Intercomm_create:
    case Function::MPI_Comm_spawn:
    case Function::MPI_Comm_spawn_multiple:
    case Function::MPI_Comm_accept:
    case Function::MPI_Comm_connect:
    case Function::MPI_Comm_join: return true;
    default: return false;
  }
}

}  // namespace

CallTranslator::CallTranslator(const RecordedProgram& program, int rank, const Piece& piece)
    : program_(program), source_(program.sources_[static_cast<std::size_t>(rank)]), rank_(rank), piece_(piece) {
  for (const reader::Communicator& one : piece.communicators) {
    const int comm = program.comm_of(one.id);
    const bool member = comm >= 0 && program.comms[static_cast<std::size_t>(comm)].RankOf(rank) >= 0;
    comms_[{one.index, one.generation}] = {member ? comm : -1, one.id};
  }
}

bool CallTranslator::Translate(simulation::Ops* ops) {
  ops_ = ops;
  for (int left = kCallsAtOnce; left > 0; --left) {
    const Call* const call = source_.pieces->NextCall(&program_.failures_);
    if (!call) return false;
    Take(*call);
  }
  return true;
}

void CallTranslator::Take(const Call& call) {
  const std::size_t first = ops_->size();
  if (source_.calls == 0) source_.thread = call.thread;
  if (call.thread != source_.thread) program_.threaded_.insert(source_.process->rank());
  if (program_.LeavesOut(source_.process->rank(), call, OnOf(call).id) || !Has(call)) {
    LoseChildOf(call);
    ops_->push_back({.what = Do::kEnter, .function = call.function});
    ++source_.left_out;
  } else {
    Add(call);
  }
  (*ops_)[first].before_ns = GapBefore(call);
  if (!program_.IsOfWantedSteps(source_.process->rank(), call.slot)) TakeNoTime(first);
  source_.before_ns = std::max(source_.before_ns, call.returned_ns == 0 ? call.entered_ns : call.returned_ns);
  ++source_.calls;
}

// The simulation knows no call on a communicator that the rank does not have. From the first such call on, all of the
// rank's calls on it are left out, so that LeavesOut gives the same answer later.
bool CallTranslator::Has(const Call& call) {
  const On& on = OnOf(call);
  if (on.comm < 0 || source_.held.contains(on.comm)) return true;
  const functions::FunctionInfo* const info = functions::Find(call.function);
  if (info && info->family == Family::kCreation && !MakesFromParent(call)) return true;  // it makes it
  program_.lost_.try_emplace({source_.process->rank(), on.id}, call.slot);
  return false;
}

// A call that is left out makes no communicator.
void CallTranslator::LoseChildOf(const Call& call) {
  const On on = OnOf(call);
  if (on.comm < 0 || !MakesFromParent(call)) return;
  const int child = program_.ChildOf(on.id, call.position, rank_);
  if (child < 0) return;
  source_.held.erase(child);
  const std::uint64_t id = program_.comm_ids()[static_cast<std::size_t>(child)];
  program_.lost_.try_emplace({source_.process->rank(), id}, call.slot);
}

// What makes communicators, before the steps that are wanted.
void CallTranslator::TakeNoTime(std::size_t first) {
  for (std::size_t i = first; i < ops_->size(); ++i)
    if (Op& op = (*ops_)[i]; op.what == Do::kEnter && op.ns != simulation::kNever) op.ns = 0;
}

// What its host did between the calls. Of several threads: as if one had made all calls.
std::int64_t CallTranslator::GapBefore(const Call& call) const {
  if (source_.calls == 0 || !program_.IsOfWantedSteps(source_.process->rank(), call.slot)) return 0;
  return program_.Gap(rank_, Between(source_.before_ns, call.entered_ns));
}

const CallTranslator::On& CallTranslator::OnOf(const Call& call) const {
  const Key key{call.communicator, call.generation};
  if (key == last_key_) return last_on_;
  const auto found = comms_.find(key);
  last_key_ = key;
  last_on_ = found == comms_.end() ? On() : found->second;
  return last_on_;
}

std::uint8_t CallTranslator::StreamOf(const Call& call) {
  if (call.stream != source_.last_stream.first || source_.streams.empty())
    source_.last_stream = *source_.streams.emplace(call.stream, source_.streams.size() % simulation::kStreams).first;
  return source_.last_stream.second;
}

Op CallTranslator::OpOf(const Call& call, Do what) {
  Op op;
  op.what = what;
  op.function = call.function;
  op.comm = CommOf(call);
  op.count = call.count;
  op.dtype = call.dtype;
  op.reduction = call.reduction;
  op.root = call.root;
  op.tag = call.tag;
  op.signature = call.signature;
  op.bytes = call.bytes;
  return op;
}

void CallTranslator::Add(const Call& call) {
  const functions::FunctionInfo* const info = functions::Find(call.function);
  if (!info) return AsRecorded(call, false);
  if (const int comm = CommOf(call); comm >= 0 && program_.IsOfMpi(comm) != functions::IsMpi(call.function))
    return AsRecorded(call, false);
  functions::IsMpi(call.function) ? AddMpi(call, *info) : AddNccl(call, *info);
}

// A call of which nothing else is known never ends if it did not.
void CallTranslator::AsRecorded(const Call& call, bool modelled) {
  const bool polls = functions::IsMpi(call.function) && (call.flags & format::kPolls) != 0;
  Op op = OpOf(call, Do::kEnter);
  op.ns = polls ? Between(call.entered_ns, call.completed_ns) : InsideNs(call);
  const bool never = call.returned_ns == 0 && !polls;
  if (never) op.ns = simulation::kNever;
  ops_->push_back(op);
  if (never) Put(Do::kForever, 0);
  if (!modelled) ++program_.not_modelled_[std::string(functions::OpName(call.function))];
}

// ---- NCCL -----------------------------------------------------------------------------------------------------------

void CallTranslator::AddNccl(const Call& call, const functions::FunctionInfo& info) {
  switch (info.family) {
    case Family::kGroup: return AddGroup(call);
    case Family::kCreation: return AddCreation(call);
    case Family::kLifecycle:
      if (call.function != Function::ncclCommDestroy || CommOf(call) < 0) return AsRecorded(call, true);
      source_.held.erase(CommOf(call));
      return ops_->push_back(OpOf(call, Do::kDestroy));
    case Family::kCollective:
    case Family::kRooted:
    case Family::kPointToPoint: break;
    case Family::kOneSided: return AsRecorded(call, false);
    default: return AsRecorded(call, true);
  }
  Op op = OpOf(call, Do::kCall);
  if (op.comm < 0 || (call.flags & format::kCaptured) != 0) return AsRecorded(call, false);
  op.stream = StreamOf(call);
  op.stalls = program_.stood_still_ && NeverFinished(call);
  if (program_.stood_still_ && NeverStarted(call))
    ops_->push_back({.what = Do::kKernel, .stream = op.stream, .ns = simulation::kNever});
  op.ns = source_.group_depth > 0 ? simulation::kMicro : std::max<std::int64_t>(1, InsideNs(call));
  op.result = call.returned_ns != 0 && !reader::Taken(call.function, call.result) ? call.result : 0;
  ops_->push_back(op);
}

const reader::Communicator* CallTranslator::CommunicatorOf(const Call& call) const {
  for (const reader::Communicator& one : piece_.communicators)
    if (one.index == call.communicator && one.generation == call.generation) return &one;
  return nullptr;
}

// MPI_COMM_WORLD; -1: it is not known.
int CallTranslator::WorldOfMpi() const {
  for (const reader::Communicator& one : piece_.communicators)
    if (one.parent == 0 && (one.flags & format::kCommMpi) != 0 && one.size > 1)
      if (const int comm = comms_.at({one.index, one.generation}).comm; comm >= 0) return comm;
  return -1;
}

// Whatever holds its GPU up is not in the recording, but that it is held up is.
bool CallTranslator::NeverFinished(const Call& call) const {
  const reader::Communicator* const on = CommunicatorOf(call);
  return on && (call.flags & format::kMarked) != 0 && !on->Finished(call.ticket);
}

bool CallTranslator::NeverStarted(const Call& call) const {
  const reader::Communicator* const on = CommunicatorOf(call);
  return on && (call.flags & format::kStartMarked) != 0 && !on->Started(call.start);
}

// The outermost group alone decides when its calls are launched.
void CallTranslator::AddGroup(const Call& call) {
  const bool starts = call.function == Function::ncclGroupStart, ends = call.function == Function::ncclGroupEnd;
  if (starts && source_.group_depth++ == 0) return ops_->push_back(OpOf(call, Do::kGroupStart));
  if (ends && source_.group_depth > 0 && --source_.group_depth == 0) {
    Op op = OpOf(call, Do::kGroupEnd);
    op.ns = std::max<std::int64_t>(1, InsideNs(call));
    op.result = call.returned_ns != 0 && !reader::Taken(call.function, call.result) ? call.result : 0;
    return ops_->push_back(op);
  }
  AsRecorded(call, true);
}

void CallTranslator::AddCreation(const Call& call) {
  if (call.returned_ns != 0 && !reader::Taken(call.function, call.result)) return AsRecorded(call, true);
  Op op = OpOf(call, Do::kInit);
  if (call.function == Function::ncclCommSplit) {
    op.what = Do::kSplit;
    op.root = op.comm;
  }
  // Of ncclCommGrow old and new ranks know the communicator by different names.
  if (op.comm < 0 || call.function == Function::ncclCommGrow) return AsRecorded(call, false);
  if (MakesFromParent(call)) op.comm = program_.ChildOf(OnOf(call).id, call.position, rank_);
  if (op.comm < 0 && op.what != Do::kSplit) return AsRecorded(call, false);
  for (const reader::Communicator& one : piece_.communicators) {
    const bool made = op.what == Do::kInit && one.index == call.communicator && one.generation == call.generation;
    if (made && one.size != program_.comms[static_cast<std::size_t>(op.comm)].members.size())
      op.claimed_size = one.size;
  }
  if (op.comm >= 0) source_.held.insert(op.comm);
  ops_->push_back(op);
}

// ---- MPI ------------------------------------------------------------------------------------------------------------

void CallTranslator::AddMpi(const Call& call, const functions::FunctionInfo& info) {
  const bool message = info.family == Family::kPointToPoint;
  const bool collective = info.family == Family::kCollective || info.family == Family::kRooted;
  const bool only_prepares = IsPersistentInit(call.function) && (call.flags & format::kRequest) == 0;
  if (message || collective) {
    const bool nothing = (call.flags & (format::kNoPartner | format::kCancelled)) != 0;
    if (only_prepares || nothing || WasRefused(call)) {
      AsRecorded(call, true);
      // The other half of an MPI_Sendrecv: it goes nowhere, but the first one does.
      if (message && call.group != 0 && call.group <= call.slot) EndExchange();
      return;
    }
    if (CommOf(call) < 0) return AsRecorded(call, false);
    return AddCommunication(call, message);
  }
  if (info.family == Family::kCompletion) return AddCompletion(call);
  // One that did not return waits for all others to get there.
  if (call.function == Function::MPI_Finalize && call.returned_ns == 0)
    if (const int world = WorldOfMpi(); world >= 0) {
      Op op = OpOf(call, Do::kMeet);
      op.comm = world;
      return ops_->push_back(op);
    }
  const bool makes = info.family == Family::kCreation && !MadeByMembersAlone(call.function);
  if (makes && CommOf(call) >= 0 && !WasRefused(call)) return ops_->push_back(OpOf(call, Do::kMeet));
  const bool local = info.family != Family::kWindow && info.family != Family::kFile && info.family != Family::kProbe;
  AsRecorded(call, local);
}

void CallTranslator::AddCommunication(const Call& call, bool message) {
  const std::uint64_t record = source_.calls;
  Op op = OpOf(call, Do::kBegin);
  op.sends = message && diagnosis::IsSend(call);
  op.synchronous = (call.flags & format::kSynchronous) != 0 && (call.flags & format::kMadeSynchronous) == 0;
  op.buffered = (call.flags & format::kBuffered) != 0;
  ops_->push_back(op);
  if ((call.flags & format::kRequest) != 0) {
    Put(Do::kLeave, record);
    if (call.waiter != 0 && (call.flags & format::kForgotten) == 0) source_.awaited[call.waiter - 1].push_back(record);
    return;
  }
  const bool first_half = message && IsExchange(call.function) && op.sends;
  if (first_half) {
    source_.exchange = static_cast<std::int64_t>(record);
    return;
  }
  EndExchange();
  Put(Do::kAwait, record);
  Put(Do::kLeave, record);
}

// The first half of an MPI_Sendrecv, if there is one: both are under way by now.
void CallTranslator::EndExchange() {
  const std::int64_t first = std::exchange(source_.exchange, -1);
  if (first < 0) return;
  Put(Do::kAwait, static_cast<std::uint64_t>(first));
  Put(Do::kLeave, static_cast<std::uint64_t>(first));
}

// A wait, or a test that has found something: for the requests that say so.
void CallTranslator::AddCompletion(const Call& call) {
  const auto awaited = source_.awaited.find(call.slot);
  if (awaited == source_.awaited.end()) return AsRecorded(call, true);
  ops_->push_back(
      {.what = Do::kEnter, .comm = -1, .function = call.function, .count = call.count, .ns = simulation::kNever});
  for (const std::uint64_t record : awaited->second) Put(Do::kAwait, record);
  Put(Do::kLeave, source_.calls);
  source_.awaited.erase(awaited);
}

}  // namespace ncclwatch::analyzer
