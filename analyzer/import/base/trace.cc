#include "analyzer/import/base/trace.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_join.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "analyzer/files/output_file.h"
#include "analyzer/segments/segment.h"
#include "analyzer/segments/segment_file.h"
#include "core/calls/mpi_message.h"
#include "core/reader/layout.h"

namespace ncclwatch::analyzer::import {
namespace {

using functions::Function;

constexpr std::size_t kCallsOfSegment = 65536, kOperationsOfSegment = 65536;

// FNV-1a; 0 is no identity.
std::uint64_t IdOf(const TraceGroup& group) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const char c : group.name) add(static_cast<unsigned char>(c));
  for (const int rank : group.ranks)
    for (int shift = 0; shift < 32; shift += 8) add(static_cast<std::uint32_t>(rank) >> shift & 0xff);
  return hash == 0 ? 1 : hash;
}

bool Sends(const reader::Call& call) {
  return functions::IsMpi(call.function) ? diagnosis::IsSend(call) : call.function == Function::ncclSend;
}

int RankIn(const TraceGroup& group, int job_rank) {
  if (group.rank >= 0 || group.rank == TraceGroup::kUnknownRank) return group.rank;
  if (group.ranks.empty()) return job_rank;
  const auto place = std::find(group.ranks.begin(), group.ranks.end(), job_rank);
  return place == group.ranks.end() ? -1 : static_cast<int>(place - group.ranks.begin());
}

reader::Communicator CommunicatorOf(const TraceGroup& group, std::uint32_t index, const Trace& trace) {
  reader::Communicator one;
  one.index = index;
  one.id = group.id != 0 ? group.id : IdOf(group);
  one.label = (group.label.empty() ? group.name : group.label).substr(0, format::kLabelBytes - 1);
  one.state = format::CommunicatorState::kReady;
  one.flags = group.flags;
  const std::size_t size = !group.ranks.empty() ? group.ranks.size()
                           : group.size > 0     ? static_cast<std::size_t>(group.size)
                                                : static_cast<std::size_t>(std::max(trace.world_size, 1));
  one.size = static_cast<std::uint32_t>(std::min<std::size_t>(size, reader::kMaxCommunicatorSize));
  const int rank = RankIn(group, trace.rank);
  if (rank < 0 || static_cast<std::uint32_t>(rank) >= one.size)
    one.flags |= format::kCommRankUnknown;
  else
    one.rank = static_cast<std::uint32_t>(rank);
  if (!group.ranks.empty())
    one.members = std::make_shared<const std::vector<std::int32_t>>(group.ranks.begin(), group.ranks.end());
  return one;
}

// In which its calls come.
std::vector<std::size_t> OrderOf(const Trace& trace) {
  std::vector<std::size_t> order(trace.calls.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool by_slot = trace.slots != Slots::kNone;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const reader::Call &one = trace.calls[a].call, &other = trace.calls[b].call;
    return by_slot ? one.slot < other.slot : one.entered_ns < other.entered_ns;
  });
  return order;
}

// Their slots in the recording, by place in the trace; those of one number twice are counted anew.
std::vector<std::uint64_t> SlotsOf(const Trace& trace, const std::vector<std::size_t>& order) {
  std::vector<std::uint64_t> slots(order.size());
  bool kept = trace.slots == Slots::kKept;
  for (std::size_t i = 1; i < order.size() && kept; ++i)
    kept = trace.calls[order[i - 1]].call.slot < trace.calls[order[i]].call.slot;
  for (std::size_t i = 0; i < order.size(); ++i) slots[order[i]] = kept ? trace.calls[order[i]].call.slot : i;
  return slots;
}

// What Call::group and Call::waiter name, in slots of the recording. A group keeps together even if the call that it
// is named after was left out: it is named after its first one then.
class Renumbered {
 public:
  Renumbered(const Trace& trace, const std::vector<std::size_t>& order, const std::vector<std::uint64_t>& slots) {
    if (trace.slots != Slots::kOrder) return;
    for (const std::size_t i : order) slot_of_.try_emplace(trace.calls[i].call.slot, slots[i]);
    for (const std::size_t i : order)
      if (trace.calls[i].call.group != 0) slot_of_.try_emplace(trace.calls[i].call.group - 1, slots[i]);
    all_ = false;
  }
  std::uint64_t Of(std::uint64_t slot_plus_1) const {
    if (all_ || slot_plus_1 == 0) return slot_plus_1;
    const auto found = slot_of_.find(slot_plus_1 - 1);
    return found == slot_of_.end() ? 0 : found->second + 1;
  }

 private:
  absl::flat_hash_map<std::uint64_t, std::uint64_t> slot_of_;
  bool all_ = true;  // they have kept their numbers
};

// Numbers the calls of one process as its library would have, one after another.
class Numberer {
 public:
  Numberer(const Trace& trace, reader::BoxImage* box) : trace_(trace), box_(*box) {}

  void Add(const TraceCall& traced, std::uint64_t slot, const Renumbered& renumbered) {
    reader::Call call = traced.call;
    call.slot = slot;
    call.group = renumbered.Of(call.group);
    call.waiter = renumbered.Of(call.waiter);
    if (call.kernel.clock != format::KernelClock::kNone) call.flags |= format::kTimed;
    if (traced.group >= 0) {
      call.communicator = static_cast<std::uint32_t>(traced.group);
      reader::Communicator& on = box_.communicators[call.communicator];
      if (functions::IsMpi(call.function)) on.flags |= format::kCommMpi;
      if (functions::IsCollective(call.function))
        AddCollective(traced, trace_.groups[call.communicator].compared_from, &on, &call);
      else if (functions::IsMessage(call.function) && call.root >= 0)
        AddMessage(traced, &on, &call);
      if (!functions::IsMpi(call.function) && traced.marked && traced.call.returned_ns != 0) Mark(traced, &on, &call);
    }
    if (call.returned_ns != 0 && call.result == format::kNoResult) call.result = 0;
    box_.calls.push_back(call);
  }

 private:
  static void AddCollective(const TraceCall& traced, std::uint64_t compared_from, reader::Communicator* on,
                            reader::Call* call) {
    if (!traced.has_position) call->position = on->entered;
    if ((call->flags & format::kEmpty) != 0) {
      ++on->empties;
      return;
    }
    on->entered = std::max(on->entered, call->position + 1);
    if (call->returned_ns != 0) on->returned = on->entered;
    if (call->position >= compared_from) {
      reader::Call compared = *call;
      if (traced.by_rank) compared.count = 0, compared.dtype = format::kNoType;
      call->chain = on->chain = format::Chain(on->chain, reader::FingerprintOf(compared));
    }
    on->last = {call->slot, call->count, call->entered_ns, call->function, call->root, call->dtype, call->reduction, 0};
  }

  void AddMessage(const TraceCall& traced, reader::Communicator* on, reader::Call* call) {
    if (call->position == format::kNotMatched) return;
    const bool send = Sends(*call);
    ++(send ? on->sends : on->receives);
    const std::uint64_t key = std::uint64_t{call->communicator} << 32 | static_cast<std::uint32_t>(call->root);
    const auto [found, fresh] = peer_of_.try_emplace(key, box_.peers.size());
    if (fresh) box_.peers.push_back({call->communicator, 0, static_cast<std::uint32_t>(call->root), 0, 0});
    reader::PeerCount& peer = box_.peers[found->second];
    std::uint64_t& count = send ? peer.sends : peer.receives;
    if (!traced.has_position) call->position = count;
    count = std::max(count, call->position + 1);
  }

  static void Mark(const TraceCall& traced, reader::Communicator* on, reader::Call* call) {
    call->flags |= format::kMarked;
    call->ticket = on->tickets++;
    if (traced.finished) on->marks[call->ticket % format::kMarks] = call->ticket + 1;
    if (!traced.started) return;
    call->flags |= format::kStartMarked;
    call->start = call->ticket + 1;
    on->starts[call->start % format::kStarts] = call->start;
  }

  const Trace& trace_;
  reader::BoxImage& box_;
  absl::flat_hash_map<std::uint64_t, std::size_t> peer_of_;  // by communicator and rank in it: place in box_.peers
};

std::int64_t EndOf(const Trace& trace) {
  std::int64_t end = trace.ended_ns;
  for (const TraceCall& one : trace.calls) end = std::max({end, one.call.entered_ns, one.call.returned_ns});
  for (const reader::Operation& one : trace.operations.all) end = std::max(end, one.began_ns + one.duration_ns);
  return end;
}

// Its operations of [begin, end), with the names that they use.
reader::Operations Slice(const reader::Operations& whole, std::size_t begin, std::size_t end) {
  reader::Operations part;
  part.ordered = whole.ordered;
  std::vector<std::uint32_t> place(whole.names.size(), UINT32_MAX);
  const auto rename = [&](std::uint32_t* name) {
    if (*name >= whole.names.size()) return;
    if (place[*name] == UINT32_MAX) {
      place[*name] = static_cast<std::uint32_t>(part.names.size());
      part.names.push_back(whole.names[*name]);
    }
    *name = place[*name];
  };
  for (std::size_t i = begin; i < end; ++i) {
    reader::Operation one = whole.all[i];
    rename(&one.name);
    rename(&one.like);
    part.all.push_back(std::move(one));
  }
  return part;
}

}  // namespace

int Trace::GroupOf(TraceGroup group) {
  const auto found = std::find(groups.begin(), groups.end(), group);
  const auto place = static_cast<int>(found - groups.begin());
  if (found == groups.end()) groups.push_back(std::move(group));
  return place;
}

std::uint32_t Trace::NameOf(std::string_view name) {
  const auto [found, fresh] =
      name_of_.try_emplace(std::string(name), static_cast<std::uint32_t>(operations.names.size()));
  if (fresh) operations.names.emplace_back(name);
  return found->second;
}

void NumberByTag(Trace* trace) {
  using Channel = std::tuple<int, std::int32_t, bool>;  // group, peer, sends
  std::map<Channel, std::map<std::int32_t, std::vector<std::size_t>>> messages;
  for (const std::size_t i : OrderOf(*trace)) {
    const TraceCall& one = trace->calls[i];
    const bool counts = one.group >= 0 && functions::IsMessage(one.call.function) && one.call.root >= 0;
    if (counts && !one.has_position && one.call.position != format::kNotMatched)
      messages[{one.group, one.call.root, Sends(one.call)}][one.call.tag].push_back(i);
  }
  for (const auto& [channel, by_tag] : messages) {
    std::uint64_t position = 0;
    for (const auto& [tag, places] : by_tag)
      for (const std::size_t i : places) {
        trace->calls[i].call.position = position++;
        trace->calls[i].has_position = true;
      }
  }
}

reader::BoxImage Finish(Trace trace) {
  reader::BoxImage box;
  box.path = trace.path;
  box.host = trace.host;
  box.command = trace.command;
  box.rank = trace.rank;
  box.world_size = trace.world_size;
  box.stage = trace.stage;
  box.replica = trace.replica;
  box.pid = trace.pid != 0 ? trace.pid : static_cast<std::uint32_t>(trace.rank + 1);
  box.realtime_minus_monotonic_ns = trace.realtime_ns;
  box.heartbeat_ns = EndOf(trace);
  box.dump = true;
  box.window = trace.window;
  box.call_sites = std::move(trace.sites);
  box.notes = std::move(trace.notes);
  for (const TraceGroup& group : trace.groups)
    box.communicators.push_back(CommunicatorOf(group, static_cast<std::uint32_t>(box.communicators.size()), trace));
  const std::vector<std::size_t> order = OrderOf(trace);
  const std::vector<std::uint64_t> slots = SlotsOf(trace, order);
  const Renumbered renumbered(trace, order, slots);
  Numberer numberer(trace, &box);
  box.calls.reserve(order.size());
  for (const std::size_t i : order) {
    const TraceCall& one = trace.calls[i];
    numberer.Add(one, slots[i], renumbered);
    if (one.operation < trace.operations.all.size())
      trace.operations.all[one.operation].call = box.calls.back().slot + 1;
  }
  for (std::size_t i = 0; i < trace.groups.size(); ++i) {
    reader::Communicator& on = box.communicators[i];
    if (trace.groups[i].entered > on.entered) on.entered = on.returned = trace.groups[i].entered;
  }
  box.operations = std::move(trace.operations);
  box.first_slot = box.calls.empty() ? 0 : box.calls.front().slot;
  box.head = box.calls.empty() ? 0 : box.calls.back().slot + 1;
  return box;
}

absl::Status TraceWriter::Add(const reader::BoxImage& box) const {
  const std::string host = box.host.empty() ? "unknown" : box.host;
  SegmentWriter file(
      fmt::format("{}/{}.{}.{}{}", directory_, host, box.pid, std::max(box.rank, 0), format::kSegmentSuffix));
  const std::size_t calls = box.calls.size(), operations = box.operations.all.size();
  reader::BoxImage part = box;
  for (std::size_t call = 0, operation = 0;;) {
    const std::size_t call_end = std::min(calls, call + kCallsOfSegment);
    const std::size_t operation_end = std::min(operations, operation + kOperationsOfSegment);
    const bool last = call_end == calls && operation_end == operations;
    part.calls.assign(box.calls.begin() + static_cast<std::ptrdiff_t>(call),
                      box.calls.begin() + static_cast<std::ptrdiff_t>(call_end));
    part.operations = Slice(box.operations, operation, operation_end);
    const std::uint64_t begin = call < calls ? box.calls[call].slot : box.head;
    const std::uint64_t end = call_end < calls ? box.calls[call_end].slot : box.head;
    const absl::Status status = file.Append(ToSegment(part, begin, end, last));
    if (!status.ok() || last) return status;
    call = call_end;
    operation = operation_end;
    part.notes.clear();
  }
}

absl::Status TraceWriter::AddNotes(const std::vector<std::string>& notes) const {
  if (notes.empty()) return absl::OkStatus();
  return WriteFile(directory_ + "/" + kImportNotes, absl::StrJoin(notes, "\n") + "\n");
}

}  // namespace ncclwatch::analyzer::import
