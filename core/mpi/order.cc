#include "core/mpi/order.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "core/calls/creations.h"
#include "core/calls/mpi_flow.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Family;
using functions::Function;
using reader::Call;

// Some MPI may let a standard send of more than this wait for its receive. That orders nothing by the standard; whoever
// relies on it is not accused.
constexpr std::uint64_t kMayBeHeld = 4096;

bool WaitsForReceive(const Call& send) {
  return (send.flags & format::kSynchronous) != 0 || ((send.flags & format::kBuffered) == 0 && send.bytes > kMayBeHeld);
}

// In which its memory is the others', until the next call.
bool OpensEpoch(Function function) { return function == Function::MPI_Win_fence || function == Function::MPI_Win_post; }
bool Locks(Function function) { return function == Function::MPI_Win_lock || function == Function::MPI_Win_lock_all; }

bool IsOfWindow(Function function) {
  const functions::FunctionInfo* info = functions::Find(function);
  if (info == nullptr || !functions::IsMpi(function)) return false;
  return info->family == Family::kWindow || function == Function::MPI_Win_fence || function == Function::MPI_Win_free;
}

bool AnyLocks(const View& view) {
  return std::any_of(view.processes.begin(), view.processes.end(), [](const Process& process) {
    const std::vector<Call>& calls = process.box->calls;
    return std::any_of(calls.begin(), calls.end(), [](const Call& call) { return Locks(call.function); });
  });
}

// Between two groups nobody says who the root is.
bool FlowIsKnown(const CommView& comm) { return comm.comparable && SpeaksMpi(comm) && !HasTwoGroups(comm); }

// ... than those that its record names.
bool OrdersOthers(const Call& call, Family family) {
  if (family == Family::kWindow || family == Family::kFile) return true;
  if (family != Family::kCreation) return false;
  return call.communicator == format::kNoCommunicator || call.function == Function::MPI_Intercomm_create ||
         call.function == Function::MPI_Comm_create_group;
}

}  // namespace

Order::Order(const View& view, const Inboxes& inboxes)
    : view_(view), sources_(view.processes.size()), unknown_(view.processes.size()) {
  AddMessages(inboxes);
  for (std::size_t c = 0; c < view.comms.size(); ++c)
    if (FlowIsKnown(view.comms[c])) AddCollectives(static_cast<int>(c));
  AddCreations();
  AddUnknown();
  const bool one_clock = std::all_of(view.processes.begin(), view.processes.end(), [&](const Process& process) {
    return process.box->boot_id == view.processes.front().box->boot_id;
  });
  clocks_apart_ns_ = one_clock ? 0 : kClocksApartNs;
  for (std::vector<Source>& sources : sources_)
    std::sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) { return a.at < b.at; });
  visited_.resize(hubs_.size());
}

int Order::NewHub() {
  hubs_.emplace_back();
  return static_cast<int>(hubs_.size()) - 1;
}

void Order::From(int hub, int process, std::uint64_t at) { sources_[process].push_back({at, hub}); }

void Order::To(int hub, int process, std::uint64_t at) {
  if (at != kNever) hubs_[hub].push_back({process, at});
}

// Of a request: the call that waited for it, else the one in which it was found to be over.
std::uint64_t Order::OverOf(int process, const Call& call) const {
  if ((call.flags & format::kRequest) == 0) return call.returned_ns == 0 ? kNever : EnterOf(call) + 1;
  if (call.completed_ns == 0) return kNever;
  if ((call.flags & format::kAskedAbout) != 0) return EnterOf(call) + 1;  // sooner than any call tells
  if (call.waiter != 0) return std::max(2 * (call.waiter - 1), EnterOf(call)) + 1;
  const std::vector<Call>& calls = view_.processes[process].box->calls;
  const auto later = std::upper_bound(calls.begin(), calls.end(), call.completed_ns,
                                      [](std::int64_t at, const Call& one) { return at < one.entered_ns; });
  return later == calls.begin() ? EnterOf(call) + 1 : std::max(EnterOf(*std::prev(later)), EnterOf(call)) + 1;
}

// When its receiver may first have known of it: by a probe, or by having it.
std::uint64_t Order::KnownAt(int process, const Delivery& delivery) const {
  const Call* probe = delivery.shown != nullptr ? delivery.shown : delivery.probe;
  return probe != nullptr ? EnterOf(*probe) + 1 : OverOf(process, *delivery.receive);
}

void Order::AddMessages(const Inboxes& inboxes) {
  for (const Inbox& inbox : inboxes.all) {
    const int to = inbox.receiver->process;
    for (const Delivery& delivery : inbox.deliveries) {
      const int from = delivery.sender->process;
      const int arrives = NewHub();
      From(arrives, from, EnterOf(*delivery.send));
      To(arrives, to, KnownAt(to, delivery));
      if (!WaitsForReceive(*delivery.send)) continue;
      const int met = NewHub();
      From(met, to, 2 * delivery.posted);
      To(met, from, OverOf(from, *delivery.send));
    }
  }
}

void Order::AddCollectives(int comm) {
  std::map<std::uint64_t, int> hubs;  // by position
  for (const Member& member : view_.comms[comm].members) {
    for (const Call* call : member.calls) {
      const auto [found, fresh] = hubs.try_emplace(call->position, -1);
      if (fresh) found->second = NewHub();
      const Flow flow = FlowOf(call->function);
      const bool root = static_cast<std::int32_t>(member.comm->rank) == call->root;
      if (flow != Flow::kFromRoot || root) From(found->second, member.process, EnterOf(*call));
      if (flow != Flow::kToRoot || root) To(found->second, member.process, OverOf(member.process, *call));
    }
  }
}

// Communicators are made and freed by all that have the one that is named.
void Order::AddCreations() {
  std::map<std::tuple<std::uint64_t, Family, std::uint64_t>, int> hubs;
  for (std::size_t p = 0; p < view_.processes.size(); ++p) {
    const int process = static_cast<int>(p);
    const reader::BoxImage& box = *view_.processes[p].box;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> ids;
    for (const reader::Communicator& comm : box.communicators) ids[{comm.index, comm.generation}] = comm.id;
    for (const Call& call : box.calls) {
      const functions::FunctionInfo* info = functions::Find(call.function);
      if (info == nullptr || !functions::IsMpi(call.function)) continue;
      if (info->family != Family::kCreation && info->family != Family::kLifecycle) continue;
      const auto id = ids.find({call.communicator, call.generation});
      if (id == ids.end()) continue;
      const std::uint64_t which = info->family == Family::kCreation ? call.position : 0;
      const auto [found, fresh] = hubs.try_emplace({id->second, info->family, which}, -1);
      if (fresh) found->second = NewHub();
      From(found->second, process, EnterOf(call));
      To(found->second, process, OverOf(process, call));
    }
  }
}

void Order::AddUnknown() {
  const bool locks = AnyLocks(view_);
  for (std::size_t p = 0; p < view_.processes.size(); ++p) {
    const reader::BoxImage& box = *view_.processes[p].box;
    std::unordered_set<std::uint64_t> known;  // communicators
    const auto key = [](std::uint32_t index, std::uint32_t generation) {
      return std::uint64_t{generation} << 32 | index;
    };
    for (const reader::Communicator& comm : box.communicators) {
      const CommView* there = view_.CommOf(comm.id);
      if (there != nullptr && FlowIsKnown(*there)) known.insert(key(comm.index, comm.generation));
    }
    for (const Call& call : box.calls) {
      const functions::FunctionInfo* info = functions::Find(call.function);
      const Family family = info != nullptr ? info->family : Family::kQuery;
      const bool elsewhere = call.communicator != format::kNoCommunicator
                                 ? !known.contains(key(call.communicator, call.generation))
                                 : functions::IsMessage(call.function) || functions::IsCollective(call.function);
      if (!functions::IsMpi(call.function) || elsewhere || OrdersOthers(call, family))
        AddUnknown(static_cast<int>(p), call);
    }
    AddWindows(static_cast<int>(p), locks);
    unknown_[p].Sort();
  }
}

// What NCCL has begun goes on after its call.
void Order::AddUnknown(int process, const Call& call) {
  Unknown& unknown = unknown_[process];
  const Process& of = view_.processes[process];
  unknown.entered.emplace_back(EnterOf(call), of.At(call.entered_ns));
  const std::int64_t over_ns = (call.flags & format::kRequest) != 0 ? call.completed_ns : call.returned_ns;
  if (!functions::IsMpi(call.function))
    unknown.over.emplace_back(INT64_MAX, OverOf(process, call));
  else if (over_ns != 0)
    unknown.over.emplace_back(of.At(over_ns), OverOf(process, call));
}

// As long as there is a window, its owner may look into its memory without any call, but where epochs forbid it. A
// lock is the business of others: none is known to the owner. Shared memory has no owner.
void Order::AddWindows(int process, bool locks) {
  struct Window {
    bool has_epochs = false;
    std::int64_t made_ns = INT64_MIN, freed_ns = INT64_MAX;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, Window> windows;
  const Process& of = view_.processes[process];
  std::vector<const Call*> makers;
  for (const reader::Communicator& comm : of.box->communicators)
    if ((comm.flags & format::kCommWindow) != 0) windows[{comm.index, comm.generation}].made_ns = comm.created_ns;
  for (const Call& call : of.box->calls) {
    if (!IsOfWindow(call.function)) continue;
    if (MakesWindowOrFile(call.function)) {
      makers.push_back(&call);
      continue;
    }
    Window& window = windows[{call.communicator, call.generation}];
    window.has_epochs = window.has_epochs || OpensEpoch(call.function);
    if (call.function == Function::MPI_Win_free && call.returned_ns != 0) window.freed_ns = of.At(call.returned_ns);
  }
  for (const auto& [key, window] : windows) {
    const auto maker = std::find_if(makers.begin(), makers.end(), [made_ns = window.made_ns](const Call* call) {
      return call->returned_ns == 0 || call->returned_ns >= made_ns;
    });
    const bool shared =
        maker == makers.end() || functions::WithSmallCounts((*maker)->function) == Function::MPI_Win_allocate_shared;
    if (window.has_epochs && !locks && !shared) continue;
    const std::uint64_t made = maker == makers.end() ? 0 : OverOf(process, **maker);
    unknown_[process].over.emplace_back(window.freed_ns, made);
  }
}

void Order::Unknown::Sort() {
  std::sort(entered.begin(), entered.end());
  std::sort(over.begin(), over.end());
  for (std::size_t i = entered.size(); i-- > 1;)
    entered[i - 1].second = std::min(entered[i - 1].second, entered[i].second);
  for (std::size_t i = over.size(); i-- > 1;) over[i - 1].second = std::min(over[i - 1].second, over[i].second);
}

std::int64_t Order::Unknown::EnteredFrom(std::uint64_t at) const {
  const auto first = std::lower_bound(entered.begin(), entered.end(), std::make_pair(at, INT64_MIN));
  return first == entered.end() ? INT64_MAX : first->second;
}

std::uint64_t Order::Unknown::OverFrom(std::int64_t ns) const {
  const auto first = std::lower_bound(over.begin(), over.end(), std::make_pair(ns, std::uint64_t{0}));
  return first == over.end() ? kNever : first->second;
}

Order::After Order::Spread(const std::vector<Moment>& from) {
  ++question_;
  After after;
  after.first_.assign(view_.processes.size(), kNever);
  std::vector<std::uint64_t> done(view_.processes.size(), kNever);  // what comes from here on has been followed
  std::vector<int> next;
  std::int64_t unknown_since_ns = INT64_MAX;
  const auto reach = [&](const Moment& moment) {
    if (moment.at >= after.first_[moment.process]) return;
    after.first_[moment.process] = moment.at;
    next.push_back(moment.process);
  };
  for (const Moment& moment : from) reach(moment);
  while (!next.empty()) {
    const int process = next.back();
    next.pop_back();
    const std::uint64_t end = done[process];
    done[process] = after.first_[process];
    if (const std::int64_t since_ns = unknown_[process].EnteredFrom(done[process]); since_ns < unknown_since_ns) {
      unknown_since_ns = since_ns;
      cost_ += unknown_.size();
      for (int other = 0; other < std::ssize(unknown_); ++other)
        if (other != process) reach({other, unknown_[other].OverFrom(since_ns - clocks_apart_ns_)});
    }
    const std::vector<Source>& sources = sources_[process];
    auto source = std::lower_bound(sources.begin(), sources.end(), done[process],
                                   [](const Source& one, std::uint64_t at) { return one.at < at; });
    for (; source != sources.end() && source->at < end; ++source, ++cost_) {
      if (visited_[source->hub] == question_) continue;
      visited_[source->hub] = question_;
      cost_ += hubs_[source->hub].size();
      for (const Moment& moment : hubs_[source->hub]) reach(moment);
    }
  }
  return after;
}

Order::After Order::Met(const Inbox& inbox, const Delivery& delivery) {
  const int to = inbox.receiver->process, from = delivery.sender->process;
  std::vector<Moment> moments = {{to, KnownAt(to, delivery)}};
  if (WaitsForReceive(*delivery.send)) moments.push_back({from, OverOf(from, *delivery.send)});
  return Spread(moments);
}

Order::After Order::Entered(const Member& member, const Call& call) {
  return Spread({{member.process, EnterOf(call)}});
}

}  // namespace ncclwatch::diagnosis
