#include "analyzer/import/otf2/process_events.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "ncclwatch/functions/types.h"

namespace ncclwatch::analyzer::import::otf2 {
namespace {

using functions::Family;
using functions::Function;

constexpr std::uint8_t kByte = 67;  // MPI_BYTE: no type is told

Function MpiFunction(const std::string& name) {
  static const auto by_name = [] {
    absl::flat_hash_map<std::string, Function> functions;
    for (const functions::FunctionInfo& one : functions::kFunctions)
      if (functions::IsMpi(one.function) && one.family != Family::kQuery)
        functions[std::string(one.name)] = one.function;
    return functions;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? Function::kNone : found->second;
}

bool IsOfMpi(const std::string& name) { return name.starts_with("MPI_") || name.starts_with("PMPI_"); }

Family FamilyOf(Function function) {
  const functions::FunctionInfo* const info = functions::Find(function);
  return info ? info->family : Family::kQuery;
}

// Tests and probes that find nothing are no calls: loops make any number of them.
bool Asks(const std::string& name, Function function) {
  return FamilyOf(function) == Family::kProbe || name.starts_with("MPI_Test") || name == "MPI_Request_get_status";
}

bool IsExchange(Function function) {
  const Function small = functions::WithSmallCounts(function);
  return small == Function::MPI_Sendrecv || small == Function::MPI_Sendrecv_replace;
}

bool Receives(Function function) {
  const Function small = functions::WithSmallCounts(function);
  return small == Function::MPI_Recv || small == Function::MPI_Irecv || small == Function::MPI_Mrecv ||
         small == Function::MPI_Imrecv || small == Function::MPI_Recv_init;
}

bool IsInit(const std::string& name) { return name.ends_with("_init") || name.ends_with("_init_c"); }

}  // namespace

ProcessEvents::ProcessEvents(const Definitions& definitions, OTF2_LocationGroupRef process)
    : definitions_(definitions) {
  const Process& own = definitions.processes.at(process);
  trace_.rank = definitions.RankOf(process);
  trace_.pid = own.pid;
  trace_.realtime_ns = definitions.realtime_ns;
  if (const auto node = definitions.nodes.find(own.node); node != definitions.nodes.end()) trace_.host = node->second;
}

void ProcessEvents::Begin(OTF2_LocationRef location) {
  thread_ = static_cast<std::uint32_t>(location);
  frames_.clear();
  outside_ = {};
}

ProcessEvents::Frame& ProcessEvents::Top(OTF2_TimeStamp time) {
  if (!frames_.empty()) return frames_.back();
  outside_.entered_ns = At(time);
  outside_.calls.clear();
  return outside_;
}

void ProcessEvents::Run(std::int64_t until_ns, Frame* frame) {
  if (!frame->program || until_ns <= frame->running_ns) return;
  reader::Operation one;
  one.began_ns = frame->running_ns;
  one.duration_ns = until_ns - frame->running_ns;
  one.lane = thread_ + 1;
  one.name = one.like = trace_.NameOf(definitions_.regions.at(frame->region).name);
  trace_.operations.all.push_back(std::move(one));
}

void ProcessEvents::Enter(OTF2_TimeStamp time, OTF2_RegionRef region) {
  const std::int64_t at_ns = At(time);
  if (!frames_.empty()) Run(at_ns, &frames_.back());
  Frame frame{.region = region, .entered_ns = at_ns, .running_ns = at_ns};
  if (const auto found = definitions_.regions.find(region); found != definitions_.regions.end()) {
    const std::string& name = found->second.name;
    frame.program = !IsOfMpi(name) && !found->second.artificial;
    const Function function = IsInit(name) && name != "MPI_Session_init" ? Function::kNone : MpiFunction(name);
    if (!Asks(name, function)) frame.function = function;
  }
  if (frame.function != Function::kNone) AddCall(frame.function, at_ns, &frame);
  frames_.push_back(std::move(frame));
}

std::size_t ProcessEvents::AddCall(Function function, std::int64_t entered_ns, Frame* frame) {
  TraceCall traced;
  traced.call.function = function;
  traced.call.entered_ns = entered_ns;
  traced.call.thread = thread_;
  if (functions::IsMessage(function)) traced.call.position = format::kNotMatched;
  const std::size_t place = trace_.calls.size();
  traced.call.slot = place;
  trace_.calls.push_back(std::move(traced));
  frame->calls.push_back(place);
  return place;
}

void ProcessEvents::Close(std::int64_t at_ns, Frame* frame) {
  for (const std::size_t place : frame->calls) trace_.calls[place].call.returned_ns = std::max<std::int64_t>(at_ns, 1);
  for (const std::size_t place : frame->ended) trace_.calls[place].call.completed_ns = std::max<std::int64_t>(at_ns, 1);
  if (frame->calls.empty()) return;
  // To or from MPI_PROC_NULL: no record tells of it.
  reader::Call& first = trace_.calls[frame->calls.front()].call;
  if (functions::IsMessage(first.function) && first.root < 0 && (first.flags & format::kRequest) == 0)
    first.flags |= format::kNoPartner;
  if (FamilyOf(first.function) == Family::kCompletion) first.count = frame->ended.size();
}

void ProcessEvents::Leave(OTF2_TimeStamp time, OTF2_RegionRef region) {
  const std::int64_t at_ns = At(time);
  const auto entered =
      std::find_if(frames_.rbegin(), frames_.rend(), [&](const Frame& one) { return one.region == region; });
  if (entered == frames_.rend()) return;
  for (auto left = entered - frames_.rbegin() + 1; left > 0; --left) {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    Run(at_ns, &frame);
    Close(at_ns, &frame);
  }
  if (!frames_.empty()) frames_.back().running_ns = at_ns;
}

// ---- messages ----------------------------------------------------------------------------------------------------

int ProcessEvents::GroupOf(OTF2_CommRef comm) {
  const auto known = group_of_.find(comm);
  if (known != group_of_.end()) return known->second;
  const auto found = definitions_.comms.find(comm);
  int place = -1;
  if (found != definitions_.comms.end()) {
    const std::vector<int> ranks = definitions_.RanksOf(found->second);
    const std::string label = found->second.name.empty() ? fmt::format("communicator {}", comm) : found->second.name;
    const bool itself = ranks.empty();  // MPI_COMM_SELF
    place =
        trace_.GroupOf({.name = fmt::format("{} {}{}", label, comm, itself ? fmt::format(" of {}", trace_.rank) : ""),
                        .label = label,
                        .ranks = itself ? std::vector<int>{trace_.rank} : ranks});
  }
  group_of_[comm] = place;
  return place;
}

void ProcessEvents::Settle(const Details& details, TraceCall* traced) {
  reader::Call& call = traced->call;
  traced->group = GroupOf(details.comm);
  if (details.peer < OTF2_COLLECTIVE_ROOT_THIS_GROUP) call.root = static_cast<std::int32_t>(details.peer);
  if (details.tag != OTF2_UNDEFINED_UINT32) call.tag = static_cast<std::int32_t>(details.tag);
  call.bytes = details.bytes;
  if (!functions::IsMessage(call.function)) return;
  call.position = 0;  // NumberByTag() counts
  call.count = details.bytes;
  call.dtype = kByte;
}

// The present call, if it is one of that kind and nothing is known of it yet. Else a call for itself: one of several
// that MPI_Startall begins, or the second half of an exchange.
TraceCall& ProcessEvents::CallFor(bool sends, Function alone, std::int64_t at_ns, Frame* frame) {
  if (frame == &outside_) {
    const std::size_t place = AddCall(alone, at_ns, frame);
    trace_.calls[place].call.returned_ns = at_ns + 1;
    return trace_.calls[place];
  }
  if (frame->calls.empty()) return trace_.calls[AddCall(alone, frame->entered_ns, frame)];
  const std::size_t first = frame->calls.front();
  const Function function = trace_.calls[first].call.function;
  if (IsExchange(function)) {
    trace_.calls[first].call.group = first + 1;
    if (sends) return trace_.calls[first];
    const std::size_t second = AddCall(function, frame->entered_ns, frame);
    trace_.calls[second].call.group = first + 1;
    return trace_.calls[second];
  }
  const bool fits = functions::IsMessage(function) && Receives(function) != sends;
  if (fits && trace_.calls[first].group < 0 && (trace_.calls[first].call.flags & format::kRequest) == 0)
    return trace_.calls[first];
  return trace_.calls[AddCall(alone, frame->entered_ns, frame)];
}

void ProcessEvents::Send(OTF2_TimeStamp time, const Details& details) {
  Settle(details, &CallFor(true, Function::MPI_Send, At(time), &Top(time)));
}

void ProcessEvents::Receive(OTF2_TimeStamp time, const Details& details) {
  Settle(details, &CallFor(false, Function::MPI_Recv, At(time), &Top(time)));
}

void ProcessEvents::Collective(const Details& details) {
  if (frames_.empty() || frames_.back().calls.empty()) return;
  TraceCall& traced = trace_.calls[frames_.back().calls.front()];
  if (functions::IsCollective(traced.call.function)) Settle(details, &traced);
}

void ProcessEvents::BeginSend(OTF2_TimeStamp time, const Details& details, std::uint64_t request) {
  TraceCall& traced = CallFor(true, Function::MPI_Isend, At(time), &Top(time));
  Settle(details, &traced);
  traced.call.flags |= format::kRequest;
  requests_[request] = traced.call.slot;
}

// From whom, it tells at its end.
void ProcessEvents::BeginReceive(OTF2_TimeStamp time, std::uint64_t request) {
  TraceCall& traced = CallFor(false, Function::MPI_Irecv, At(time), &Top(time));
  traced.call.flags |= format::kRequest | format::kAnySource | format::kAnyTag;
  requests_[request] = traced.call.slot;
}

void ProcessEvents::BeginCollective(std::uint64_t request) {
  if (frames_.empty() || frames_.back().calls.empty()) return;
  TraceCall& traced = trace_.calls[frames_.back().calls.front()];
  traced.call.flags |= format::kRequest;
  requests_[request] = traced.call.slot;
}

TraceCall* ProcessEvents::Request(std::uint64_t request) {
  const auto found = requests_.find(request);
  return found == requests_.end() ? nullptr : &trace_.calls[found->second];
}

// Null: it is not known how it began.
TraceCall* ProcessEvents::End(OTF2_TimeStamp time, std::uint64_t request) {
  TraceCall* const traced = Request(request);
  if (!traced) return nullptr;
  requests_.erase(request);
  const std::size_t place = traced->call.slot;
  if (frames_.empty()) {
    traced->call.completed_ns = std::max<std::int64_t>(At(time), 1);
    return traced;
  }
  Frame& frame = frames_.back();
  if (frame.calls.empty()) {  // a test that has found something
    const auto region = definitions_.regions.find(frame.region);
    const Function function = region == definitions_.regions.end() ? Function::kNone : MpiFunction(region->second.name);
    if (function != Function::kNone) AddCall(function, frame.entered_ns, &frame);
  }
  frame.ended.push_back(place);
  if (!frame.calls.empty()) trace_.calls[place].call.waiter = frame.calls.front() + 1;
  return &trace_.calls[place];
}

void ProcessEvents::EndSend(OTF2_TimeStamp time, std::uint64_t request) { End(time, request); }

void ProcessEvents::EndReceive(OTF2_TimeStamp time, const Details& details, std::uint64_t request) {
  TraceCall* const traced = End(time, request);
  if (!traced) return;
  traced->call.flags &= ~std::uint32_t{format::kAnySource | format::kAnyTag};
  Settle(details, traced);
}

void ProcessEvents::EndCollective(OTF2_TimeStamp time, const Details& details, std::uint64_t request) {
  if (TraceCall* const traced = End(time, request)) Settle(details, traced);
}

void ProcessEvents::Cancel(OTF2_TimeStamp time, std::uint64_t request) {
  if (TraceCall* const traced = End(time, request)) traced->call.flags |= format::kCancelled;
}

// Threads were read one after another, and calls name one another by their places.
void ProcessEvents::OrderByTime() {
  std::vector<std::size_t> order(trace_.calls.size()), place(trace_.calls.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return trace_.calls[a].call.entered_ns < trace_.calls[b].call.entered_ns;
  });
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (TraceCall& one : trace_.calls) {
    one.call.slot = place[one.call.slot];
    if (one.call.group != 0) one.call.group = place[one.call.group - 1] + 1;
    if (one.call.waiter != 0) one.call.waiter = place[one.call.waiter - 1] + 1;
  }
  trace_.slots = Slots::kKept;
}

Trace ProcessEvents::Take() {
  OrderByTime();
  NumberByTag(&trace_);
  int world = 0;
  for (const auto& [ref, process] : definitions_.processes) world = std::max(world, definitions_.RankOf(ref) + 1);
  trace_.world_size = world;
  return std::move(trace_);
}

}  // namespace ncclwatch::analyzer::import::otf2
