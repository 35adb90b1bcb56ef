#include "core/waits/messages.h"

#include <algorithm>

#include "core/view/mpi_traits.h"
#include "core/view/peer_counts.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

class Messages {
 public:
  explicit Messages(const View& view) : view_(view), counts_(view) {}

  void Add(int comm_index, int member_index, WaitGraph* graph) const {
    const CommView& comm = view_.comms[comm_index];
    const Member& member = comm.members[member_index];
    if (member.node < 0 || !member.alive_in() || view_.process(member).outcome.gone()) return;
    for (const Call* call : member.messages) {
      if (call->root < 0 || Settled(member, *call)) continue;
      const Member* peer = comm.OfRank(static_cast<std::uint32_t>(call->root));
      if (peer == nullptr || peer == &member) continue;
      // A process that does not run moves nothing to other nodes either.
      const bool held = view_.process(*peer).outcome.held() && Marked(*call);
      if (HasPartner(member, *peer, *call) && !held) continue;
      Wait wait = WaitBetween(view_, comm_index, member_index, *peer);
      wait.what = WaitFor::kMessage;
      wait.position = call->position;
      wait.call = call;
      wait.proven = call->returned_ns == 0 || Marked(*call);
      wait.since_ns = view_.process(member).At(call->entered_ns);
      if (wait.other != wait.waiter) graph->waits.push_back(wait);
    }
  }

 private:
  static bool Marked(const Call& call) { return (call.flags & format::kMarked) != 0; }

  // Finished on the GPU, or not launched yet: its group is still being filled.
  bool Settled(const Member& member, const Call& call) const {
    if (Marked(call)) return member.comm->Finished(call.ticket);
    return call.returned_ns == 0 && view_.process(member).open_groups.contains(call.group);
  }

  bool HasPartner(const Member& member, const Member& peer, const Call& call) const {
    const MessageCounts* counts = counts_.Of(peer, member.comm->rank);
    // A count that found no room says nothing; then nobody is said to wait.
    const reader::BoxImage& box = *view_.process(peer).box;
    if (counts == nullptr) return box.peers_lost > 0 || box.from_summary;
    return (call.function == Function::ncclSend ? counts->receives : counts->sends) > call.position;
  }

  const View& view_;
  const PeerCounts counts_;
};

}  // namespace

void AddMessages(const View& view, WaitGraph* graph) {
  const bool any = std::any_of(view.processes.begin(), view.processes.end(),
                               [](const Process& process) { return !process.box->peers.empty(); });
  if (!any) return;
  const Messages messages(view);
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    if (!view.comms[c].comparable || SpeaksMpi(view.comms[c])) continue;
    for (std::size_t m = 0; m < view.comms[c].members.size(); ++m) {
      messages.Add(static_cast<int>(c), static_cast<int>(m), graph);
    }
  }
}

}  // namespace ncclwatch::diagnosis
