#include "core/waits/kernels.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/model/text.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

// It begins once all its streams have come to it.
Begun BegunOf(const Member& member, const std::vector<const Call*>& calls) {
  Begun begun = Begun::kYes;
  for (const Call* call : calls) {
    if ((call->flags & format::kStartMarked) == 0)
      begun = Begun::kUnknown;
    else if (!member.comm->Started(call->start))
      return Begun::kNo;
  }
  return begun;
}

class Kernels {
 public:
  explicit Kernels(const View& view, const WaitGraph& graph) : view_(view), graph_(graph) {
    for (std::size_t n = 0; n < view.nodes.size(); ++n) Collect(static_cast<int>(n));
    MeetInCollectives();
    for (std::size_t i = 0; i < all_.size(); ++i) MeetInMessages(i);
    JoinGroups();
    Settle();
  }
  std::vector<Kernel> Take() { return std::move(all_); }

 private:
  using Key = std::tuple<int, int, int, int, std::uint64_t>;  // communicator, member, function, peer, position

  // The same for all that one group launches at once.
  static std::uint64_t Launched(const Call& call) { return call.group != 0 ? call.group : ~call.slot; }

  // All unfinished launches of the node (calls of MPI launch nothing on a GPU), and which of them came first. Those of
  // one group on several communicators need one another: NCCL launches them in an order of its own.
  void Collect(int node) {
    struct Launch {
      const Call* call;
      int comm, member;
    };
    std::vector<Launch> launches;
    const Process& process = view_.process(view_.nodes[node]);
    if (process.outcome.gone() || process.outcome.held()) return;
    for (const auto& [comm, member] : view_.nodes[node].memberships) {
      const Member& own = view_.member({comm, member});
      if (!view_.comms[comm].comparable || !own.alive_in()) continue;
      for (const std::vector<const Call*>* calls : {&own.calls, &own.messages})
        for (const Call* call : *calls)
          if (own.Outstanding(*call) && !functions::IsMpi(call->function)) launches.push_back({call, comm, member});
    }
    std::sort(launches.begin(), launches.end(),
              [](const Launch& a, const Launch& b) { return a.call->slot < b.call->slot; });
    for (const Launch& launch : launches) {
      const std::uint64_t launched = Launched(*launch.call);
      Kernel* kernel = Of(launch.comm, launch.member, node, launched);
      kernel->calls.push_back(launch.call);
      // Streams may wait for one another by events that nobody sees: only what is first of all can be the cause.
      kernel->open = kernel->open && launched == Launched(*launches.front().call) && graph_.blocked[node] == 0 &&
                     !graph_.Explains(launch.comm, launch.call->position);
      if (IsMessage(*launch.call))
        holder_[{launch.comm, launch.member, static_cast<int>(launch.call->function), launch.call->root,
                 launch.call->position}] = static_cast<std::size_t>(kernel - all_.data());
    }
  }

  Kernel* Of(int comm, int member, int node, std::uint64_t launched) {
    const auto [at, fresh] = by_launch_.try_emplace({comm, member, launched}, all_.size());
    if (fresh) all_.push_back({comm, member, node, {}, false, true, Begun::kUnknown});
    return &all_[at->second];
  }

  // All members of a collective, once for all of them: of ten thousand ranks each would meet each.
  void MeetInCollectives() {
    std::map<std::pair<int, std::uint64_t>, std::vector<std::size_t>> collectives;  // (communicator, position)
    for (std::size_t i = 0; i < all_.size(); ++i)
      for (const Call* call : all_[i].calls)
        if (!IsMessage(*call)) collectives[{all_[i].comm, call->position}].push_back(i);
    for (auto& [at, kernels] : collectives) {
      const CommView& comm = view_.comms[at.first];
      const auto finished = static_cast<std::size_t>(std::count_if(
          comm.members.begin(), comm.members.end(),
          [&, position = at.second](const Member& member) { return view_.Unfinished(member) > position; }));
      // Not launched somewhere, or that is not known.
      if (kernels.size() + finished < comm.size) Close(kernels);
      Bind(std::move(kernels));
    }
  }

  void MeetInMessages(std::size_t index) {
    Kernel& kernel = all_[index];
    const CommView& comm = view_.comms[kernel.comm];
    const int own = static_cast<int>(comm.members[kernel.member].comm->rank);
    for (const Call* call : kernel.calls) {
      if (!IsMessage(*call)) continue;
      const Member* other = call->root < 0 ? nullptr : comm.OfRank(static_cast<std::uint32_t>(call->root));
      const Function wanted = call->function == Function::ncclSend ? Function::ncclRecv : Function::ncclSend;
      const auto found = other == nullptr ? holder_.end()
                                          : holder_.find({kernel.comm, static_cast<int>(other - comm.members.data()),
                                                          static_cast<int>(wanted), own, call->position});
      if (found != holder_.end())
        Bind({index, found->second});
      else if (other != nullptr && FinishedMessage(*other, wanted, own, call->position))
        kernel.met = kernel.met || Counted(kernel, *other);  // buffers took it in, and it does not come out of them
      else
        kernel.open = false;
    }
  }

  // Both count their messages from the first one on: the numbers tell which belong together.
  bool Counted(const Kernel& kernel, const Member& other) const {
    return !view_.process(view_.nodes[kernel.node]).box->from_summary && !view_.process(other).box->from_summary;
  }

  void Close(const std::vector<std::size_t>& kernels) {
    for (const std::size_t i : kernels) all_[i].open = false;
  }

  // None of them ends before all have begun.
  void Bind(std::vector<std::size_t> kernels) {
    for (const std::size_t i : kernels) all_[i].met = true;
    bound_.push_back(std::move(kernels));
  }

  void JoinGroups() {
    std::map<std::pair<int, std::uint64_t>, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (all_[i].calls.front()->group != 0) groups[{all_[i].node, all_[i].calls.front()->group}].push_back(i);
    for (auto& [key, kernels] : groups)
      if (kernels.size() > 1) Bind(std::move(kernels));
  }

  static bool FinishedMessage(const Member& member, Function function, int peer, std::uint64_t position) {
    return std::any_of(member.messages.begin(), member.messages.end(), [&](const Call* call) {
      return call->function == function && call->root == peer && call->position == position &&
             (call->flags & format::kMarked) != 0 && member.comm->Finished(call->ticket);
    });
  }

  // Who waits for one that waits waits too.
  void Settle() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const std::vector<std::size_t>& kernels : bound_) {
        const auto closed = static_cast<std::size_t>(
            std::count_if(kernels.begin(), kernels.end(), [&](std::size_t i) { return !all_[i].open; }));
        if (closed == 0 || closed == kernels.size()) continue;
        Close(kernels);
        changed = true;
      }
    }
  }

  const View& view_;
  const WaitGraph& graph_;
  std::vector<Kernel> all_;
  std::map<std::tuple<int, int, std::uint64_t>, std::size_t> by_launch_;
  std::map<Key, std::size_t> holder_;  // of messages
  std::vector<std::vector<std::size_t>> bound_;
};

}  // namespace

std::vector<int> Stuck::RanksWhere(const View& view, Begun begun) const {
  std::vector<int> ranks;
  for (const Kernel& kernel : kernels)
    if (kernel.begun == begun) ranks.push_back(view.nodes[kernel.node].rank);
  return SortedUnique(std::move(ranks));
}

std::vector<Stuck> FindStuck(const View& view, const WaitGraph& graph) {
  std::map<int, Stuck> by_comm;
  for (Kernel& kernel : Kernels(view, graph).Take()) {
    if (!kernel.open || !kernel.met) continue;
    kernel.begun = BegunOf(view.member({kernel.comm, kernel.member}), kernel.calls);
    Stuck& stuck = by_comm[kernel.comm];
    stuck.comm = kernel.comm;
    const Process& process = view.process(view.nodes[kernel.node]);
    for (const Call* call : kernel.calls)
      stuck.since_ns = std::max(stuck.since_ns, process.At(std::max(call->entered_ns, call->returned_ns)));
    stuck.kernels.push_back(std::move(kernel));
  }
  std::vector<Stuck> all;
  for (auto& [comm, stuck] : by_comm) all.push_back(std::move(stuck));
  return all;
}

}  // namespace ncclwatch::diagnosis
