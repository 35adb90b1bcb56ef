#include "analyzer/replay/outcome.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "analyzer/replay/fates.h"
#include "core/calls/mpi_message.h"
#include "core/reader/awaited.h"

namespace ncclwatch::analyzer {
namespace {

using reader::Call;
using simulation::kNever;

// A standstill is judged once it has lasted so long that nothing else can be thought.
constexpr std::int64_t kStandstill_ns = 600 * simulation::kSecond;

// One rank's image as of the end of the simulation.
class RankImage {
 public:
  RankImage(const RecordedProgram& program, const simulation::RankHistory& history, int rank, std::size_t newest,
            const OlderCalls& older)
      : program_(program),
        history_(history),
        rank_(rank),
        newest_(newest),
        in_memory_(older ? history.records.size() : newest),
        older_(older) {}

  reader::BoxImage Make(Outcome* outcome) {
    const ProcessRecording& process = *program_.process(rank_);
    image_ = process.process();
    recorded_ns_ = program_.began_ns() - image_.realtime_minus_monotonic_ns;
    UseClockOf(program_.process(0)->process());
    real_ns_ = program_.began_ns() - image_.realtime_minus_monotonic_ns;
    image_.path.clear();
    image_.leader_state = {};
    image_.observations.clear();
    image_.peers.clear();
    ReadCalls(process, outcome);
    SetCommunicators();
    if (older_ && image_.calls.size() > newest_) older_(image_, image_.calls[image_.calls.size() - newest_].slot);
    Trim(newest_);
    image_.calls.shrink_to_fit();  // there is one for each rank
    return std::move(image_);
  }

 private:
  struct Counts {
    std::uint64_t entered = 0, returned = 0, chain = 0, sends = 0, receives = 0, empties = 0;
    std::size_t last = SIZE_MAX;  // in image_.calls
    reader::LastCall last_call;
  };

  struct Channel {  // what this rank has sent to a peer on a communicator, or received
    std::uint64_t messages = 0;
    std::uint32_t tags = 0;
  };

  // Nodes have clocks of their own, which may differ by weeks; in the simulation there is one.
  void UseClockOf(const reader::BoxImage& first) {
    const std::int64_t later = image_.realtime_minus_monotonic_ns - first.realtime_minus_monotonic_ns;
    image_.boot_id.clear();
    image_.realtime_minus_monotonic_ns = first.realtime_minus_monotonic_ns;
    const auto shift = [later](auto* all) {
      for (auto& one : *all) one.at_ns += later;
    };
    shift(&image_.notes);
    shift(&image_.events);
    shift(&image_.words.signals);
    shift(&image_.words.exceptions);
    shift(&image_.words.errors);
    shift(&image_.words.misuses);
    for (auto& failed : image_.words.allocations) {
      failed.at_ns += later;
      if (failed.recovered_ns != 0) failed.recovered_ns += later;
    }
    image_.last_words.at_ns += later;
  }

  // Streams have places of their own.
  static std::uint64_t StartNumber(const simulation::LocalComm& comm, std::size_t start) {
    static_assert(simulation::kStreams <= format::kStarts);
    return (start + 1) * format::kStarts + comm.start_streams[start];
  }

  std::int64_t At(std::int64_t ns) const { return ns == kNever ? 0 : std::max<std::int64_t>(1, ns + real_ns_); }

  void ReadCalls(const ProcessRecording& process, Outcome* outcome) {
    PieceReader pieces(process);
    std::vector<reader::Failure> ignored;  // they were said when the program was made
    while (record_ < history_.records.size() && pieces.Begin(&ignored)) {
      ids_.clear();
      for (const reader::Communicator& one : pieces.piece().communicators) ids_[{one.index, one.generation}] = one.id;
      while (const Call* const call = pieces.NextCall(&ignored))
        if (record_ < history_.records.size()) Take(*call, outcome);
      const std::uint64_t end = image_.calls.empty() ? 0 : image_.calls.back().slot + 1;
      for (const reader::CallParts& parts : pieces.parts())
        if (parts.call.slot < end && !LeftOut(parts.call.slot)) image_.parts.push_back(parts);
    }
    image_.head = history_.records.size();
    Trim(in_memory_);
    reader::MarkAwaited(&image_);
  }

  void Take(const Call& recorded, Outcome* outcome) {
    const simulation::Record& simulated = history_.records[record_++];
    const auto id = ids_.find({recorded.communicator, recorded.generation});
    outcome->recorded_ns =
        std::max(outcome->recorded_ns,
                 std::max({recorded.entered_ns, recorded.returned_ns, recorded.completed_ns}) - recorded_ns_);
    const std::uint64_t on = id == ids_.end() ? 0 : id->second;
    if (program_.left_out(rank_) != 0 && program_.LeavesOut(program_.process(rank_)->rank(), recorded, on)) return;
    ++outcome->calls;
    Call call = recorded;
    Simulate(simulated, on, &call, outcome);
    if (history_.records.size() - record_ >= in_memory_ + program_.left_out(rank_)) return;  // not of the newest
    if (image_.calls.size() == 2 * in_memory_) Trim(in_memory_);
    image_.calls.push_back(call);
  }

  bool LeftOut(std::uint64_t slot) const {
    const auto call = std::lower_bound(image_.calls.begin(), image_.calls.end(), slot,
                                       [](const Call& one, std::uint64_t wanted) { return one.slot < wanted; });
    return call == image_.calls.end() || call->slot != slot;
  }

  void Trim(std::size_t most) {
    if (image_.calls.size() > most)
      image_.calls.erase(image_.calls.begin(), image_.calls.end() - static_cast<std::ptrdiff_t>(most));
    const std::uint64_t first = image_.calls.empty() ? 0 : image_.calls.front().slot;
    image_.first_slot = first;
    std::erase_if(image_.parts, [&](const reader::CallParts& parts) { return parts.call.slot < first; });
  }

  void Simulate(const simulation::Record& simulated, std::uint64_t id, Call* call, Outcome* outcome) {
    call->entered_ns = At(simulated.entered);
    const bool returned = simulated.returned != kNever;
    call->returned_ns = At(simulated.returned);
    if (!returned) call->result = format::kNoResult;
    if (returned && call->result == format::kNoResult) call->result = 0;
    const bool request = (call->flags & format::kRequest) != 0;
    if (functions::IsMpi(call->function) && request)
      call->completed_ns = simulated.completed == kNever ? 0 : At(simulated.completed);
    bool ends = returned;
    if (simulated.ticket >= 0 && simulated.comm >= 0) {
      call->ticket = static_cast<std::uint64_t>(simulated.ticket);
      const auto& tickets = history_.comms[static_cast<std::size_t>(simulated.comm)].tickets;
      ends = ends && tickets[static_cast<std::size_t>(simulated.ticket)] != kNever;
    } else {
      call->flags &= ~static_cast<std::uint32_t>(format::kMarked);
    }
    if (simulated.start >= 0 && simulated.comm >= 0)
      call->start = StartNumber(history_.comms[static_cast<std::size_t>(simulated.comm)],
                                static_cast<std::size_t>(simulated.start));
    else
      call->flags &= ~static_cast<std::uint32_t>(format::kStartMarked);
    const bool collective = functions::IsCollective(call->function);
    if (collective && simulated.comm >= 0 && call->communicator != format::kNoCommunicator) {
      call->position = simulated.position;
      call->chain = simulated.chain;
    }
    const bool over = request ? simulated.completed != kNever : returned;
    if (functions::IsMessage(call->function) && call->communicator != format::kNoCommunicator)
      NumberMessage(over, call);
    Count(*call, over);
    if (!ends) outcome->stopped.push_back({program_.process(rank_)->rank(), id, call->position, call->function});
  }

  // By its channel, as the simulation has it, whatever number it had in the recording: sends as they are called, those
  // of NCCL and receives too; MPI's receives once they are over. The sum of the tags goes with them.
  void NumberMessage(bool over, Call* call) {
    const bool mpi = functions::IsMpi(call->function), receives = diagnosis::IsReceive(*call);
    if (receives && !over) {  // a receive that no message meets now has none
      call->position = format::kNotMatched;
      return;
    }
    constexpr std::uint32_t kNeither = format::kNoPartner | format::kCancelled;
    if (call->root < 0 || (mpi && (call->flags & kNeither) != 0)) return;
    const bool sends = mpi ? !receives : call->function == functions::Function::ncclSend;
    Channel& channel = channels_[{call->communicator, call->generation, static_cast<std::uint32_t>(call->root), sends}];
    call->position = channel.messages++;
    if (!mpi) return;
    channel.tags = format::AddTag(channel.tags, call->tag);
    call->chain = channel.tags;
  }

  void Count(const Call& call, bool over) {
    if (call.communicator == format::kNoCommunicator) return;
    Counts& counts = counts_[{call.communicator, call.generation}];
    if (functions::IsMessage(call.function)) {
      const bool sends = call.function == functions::Function::ncclSend || diagnosis::IsSend(call);
      if (!sends && functions::IsMpi(call.function) && !over) return;
      ++(sends ? counts.sends : counts.receives);
      if (call.root < 0) return;
      auto& peer = peers_[{call.communicator, call.generation, static_cast<std::uint32_t>(call.root)}];
      ++(sends ? peer.first : peer.second);
    } else if (functions::IsCollective(call.function)) {
      if ((call.flags & format::kEmpty) != 0) {
        ++counts.empties;
        return;
      }
      counts.entered = call.position + 1;
      counts.chain = call.chain;
      if (call.returned_ns != 0) ++counts.returned;
      counts.last_call = {call.slot, call.count, call.entered_ns, call.function,
                          call.root, call.dtype, call.reduction,  call.flags};
    }
  }

  void SetCommunicators() {
    std::vector<reader::Communicator> kept;
    for (reader::Communicator& one : image_.communicators) {
      const int comm = program_.comm_of(one.id);
      const auto local = std::find_if(history_.comms.begin(), history_.comms.end(),
                                      [&](const simulation::LocalComm& each) { return each.comm == comm; });
      if (comm >= 0 && local == history_.comms.end()) continue;  // the replay did not come so far
      if (comm < 0 && one.size != 0 && (one.flags & format::kCommRankUnknown) == 0) continue;  // not chosen
      if (comm < 0) {                                                                          // it never came to be
        kept.push_back(std::move(one));
        continue;
      }
      const Counts& counts = counts_[{one.index, one.generation}];
      one.entered = counts.entered;
      one.returned = counts.returned;
      one.chain = counts.chain;
      one.sends = counts.sends;
      one.receives = counts.receives;
      one.empties = counts.empties;
      one.last = counts.last_call;
      one.created_ns = At(local->created);
      one.state = local->destroyed != kNever ? format::CommunicatorState::kDestroyed
                  : local->ready != kNever   ? format::CommunicatorState::kReady
                                             : format::CommunicatorState::kInitializing;
      one.aborted_ns = 0;
      one.marks = {};
      one.starts = {};
      one.tickets = local->tickets.size();
      for (std::size_t ticket = 0; ticket < local->tickets.size(); ++ticket)
        if (local->tickets[ticket] != kNever) one.marks[ticket % format::kMarks] = ticket + 1;
      for (std::size_t start = 0; start < local->starts.size(); ++start)
        if (local->starts[start] != kNever) one.starts[local->start_streams[start]] = StartNumber(*local, start);
      kept.push_back(std::move(one));
    }
    image_.communicators = std::move(kept);
    for (const auto& [key, counts] : peers_)
      image_.peers.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), counts.first, counts.second});
  }

  const RecordedProgram& program_;
  const simulation::RankHistory& history_;
  const int rank_;
  const std::size_t newest_, in_memory_;
  const OlderCalls& older_;
  std::int64_t real_ns_ = 0;      // CLOCK_MONOTONIC of instant 0
  std::int64_t recorded_ns_ = 0;  // likewise, as the process had it
  std::size_t record_ = 0;        // the next one
  reader::BoxImage image_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> ids_;  // of the piece's communicators
  std::map<std::pair<std::uint32_t, std::uint32_t>, Counts> counts_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::pair<std::uint64_t, std::uint64_t>> peers_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, bool>, Channel> channels_;
};

// A rank whose list is done waits for the others.
void SetLife(bool leaves, std::int64_t now, reader::BoxImage* image) {
  if (!leaves) {
    image->state = format::ProcessState::kRunning;
    image->last_words = {};
    reader::Words wrong_uses;  // of MPI: whatever becomes of the job, these were made
    wrong_uses.misuses = std::move(image->words.misuses);
    image->words = std::move(wrong_uses);
    image->heartbeat_ns = now;
    return;
  }
  std::int64_t last = now;
  if (!image->calls.empty()) last = std::max(image->calls.back().entered_ns, image->calls.back().returned_ns);
  image->heartbeat_ns = image->last_words.at_ns = last + simulation::kMilli;
}

}  // namespace

Outcome OutcomeOf(const Recording& recording, const RecordedProgram& program, const simulation::World& world,
                  std::size_t newest_calls, const OlderCalls& older) {
  Outcome outcome;
  outcome.simulated_ns = world.ended();
  outcome.completed = true;
  std::vector<int> of;
  for (int rank = 0; rank < world.ranks(); ++rank) {
    if (!program.process(rank)) continue;
    outcome.run.boxes.push_back(RankImage(program, world.rank(rank), rank, newest_calls, older).Make(&outcome));
    outcome.completed = outcome.completed && world.rank(rank).done;
    of.push_back(rank);
  }
  outcome.completed = outcome.completed && outcome.stopped.empty();
  const std::int64_t wait = outcome.completed ? simulation::kMilli : kStandstill_ns;
  const Fates fates(recording);
  for (std::size_t i = 0; i < of.size(); ++i) {
    reader::BoxImage& image = outcome.run.boxes[i];
    const std::int64_t now = program.began_ns() - image.realtime_minus_monotonic_ns + outcome.simulated_ns + wait;
    SetLife(world.rank(of[i]).done && fates.Leaves(image), now, &image);
  }
  // After all that the process does in the simulation.
  for (reader::Observation seen : fates.seen())
    for (const reader::BoxImage& image : outcome.run.boxes) {
      if (!SameProcess(seen, image)) continue;
      seen.place = 0;
      seen.at_ns = image.heartbeat_ns + simulation::kMilli;
      outcome.observations.push_back(seen);
    }
  return outcome;
}

}  // namespace ncclwatch::analyzer
