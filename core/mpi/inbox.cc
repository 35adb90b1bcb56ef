#include "core/mpi/inbox.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "core/calls/mpi_message.h"

namespace ncclwatch::diagnosis {
namespace {

using functions::Function;
using reader::Call;

bool TakesMessage(Function function) {
  const Function probe = functions::WithSmallCounts(function);
  return probe == Function::MPI_Mprobe || probe == Function::MPI_Improbe;
}

bool SameEnvelope(const Call& a, const Call& b) {
  constexpr std::uint32_t kAny = format::kAnySource | format::kAnyTag;
  return a.function == b.function && a.root == b.root && a.tag == b.tag && (a.flags & kAny) == (b.flags & kAny);
}

// By receive; null: it does not name what the probe before it had found.
using Probes = std::unordered_map<const Call*, const Call*>;

// Each receive that says by name what a probe has left open before it. Of probes that look alike only the newest
// counts.
class ProbesOf {
 public:
  explicit ProbesOf(const Member& member) {
    auto probe = member.probes.begin();
    for (const Call* call : member.messages) {
      for (; probe != member.probes.end() && (*probe)->slot < call->slot; ++probe) Note(**probe);
      if (IsReceive(*call) && call->root >= 0) Bind(*call);
    }
  }
  Probes TakeBound() { return std::move(bound_); }

 private:
  void Note(const Call& probe) {
    constexpr std::uint32_t kFoundNothing = format::kPolls | format::kNoPartner;
    if (probe.returned_ns == 0 || (probe.flags & kFoundNothing) != 0) return;
    if (!TakesMessage(probe.function))
      std::erase_if(pending_, [&](const Call* other) { return SameEnvelope(*other, probe); });
    pending_.push_back(&probe);
  }

  // Messages that were taken out of order by their probes are received in any: the oldest one. Else the newest.
  void Bind(const Call& receive) {
    const bool matched = IsMatched(receive.function);
    const auto fits = [&](const Call* probe) {
      return TakesMessage(probe->function) == matched &&
             Takes(*probe, static_cast<std::uint32_t>(receive.root), receive.tag);
    };
    auto found = std::find_if(pending_.begin(), pending_.end(), fits);
    if (found == pending_.end()) return;
    if (!matched) found = std::prev(std::find_if(pending_.rbegin(), pending_.rend(), fits).base());
    const bool names = matched || (receive.flags & format::kAnySource) == 0;
    bound_[&receive] = names ? *found : nullptr;
    pending_.erase(found);
  }

  std::vector<const Call*> pending_;
  Probes bound_;
};

Delivery DeliveryOf(const Member* sender, const Call& receive, const Probes& probes) {
  Delivery delivery;
  delivery.sender = sender;
  delivery.receive = &receive;
  const auto probe = probes.find(&receive);
  if (probe != probes.end()) delivery.probe = probe->second;
  delivery.looked = probe != probes.end();
  std::uint32_t flags = receive.flags | (delivery.probe != nullptr ? delivery.probe->flags : 0);
  if (IsMatched(receive.function) && delivery.probe == nullptr) flags |= format::kAnySource | format::kAnyTag;
  delivery.any_source = (flags & format::kAnySource) != 0;
  delivery.any_tag = (flags & format::kAnyTag) != 0;
  delivery.posted = IsMatched(receive.function) && delivery.probe != nullptr ? delivery.probe->slot : receive.slot;
  return delivery;
}

// The first position from which on both sides have what the other has; none: the rings do not show one.
std::optional<std::uint64_t> FirstCut(const Channel& channel) {
  const auto starts = [](const std::vector<const Call*>& calls) {
    return calls.empty() || calls.front()->position == 0;
  };
  if (starts(channel.sends) && starts(channel.receipts)) return 0;
  auto send = channel.sends.begin();
  for (const Call* receipt : channel.receipts) {
    while (send != channel.sends.end() && (*send)->position < receipt->position) ++send;
    if (send == channel.sends.end()) return std::nullopt;
    if ((*send)->position == receipt->position && (*send)->chain == receipt->chain) return receipt->position + 1;
  }
  return std::nullopt;
}

class Filler {
 public:
  Filler(const View& view, Inboxes* inboxes) : view_(view), inboxes_(inboxes) {}

  void Add(int comm, const Channel& channel) {
    Inbox& inbox = InboxOf(comm, *channel.receiver);
    const std::uint32_t from = channel.sender->comm->rank;
    inbox.senders[from] = channel.sender;
    const std::optional<std::uint64_t> cut = channel.lossy ? std::nullopt : FirstCut(channel);
    std::unordered_map<std::int32_t, std::vector<Delivery>> by_tag;
    for (const Call* receipt : channel.receipts) {
      if (!cut || receipt->position < *cut)
        Unclear(*channel.receiver, *receipt);
      else
        by_tag[receipt->tag].push_back(DeliveryOf(channel.sender, *receipt, ProbesFor(*channel.receiver)));
    }
    for (auto& [tag, deliveries] : by_tag) std::stable_sort(deliveries.begin(), deliveries.end(), BeforeInPosting);
    std::unordered_map<std::int32_t, std::size_t> next;
    for (const Call* send : channel.sends) {
      if (!cut || send->position < *cut || (send->flags & format::kCancelled) != 0) continue;
      const auto deliveries = by_tag.find(send->tag);
      std::size_t& at = next[send->tag];
      if (deliveries != by_tag.end() && at < deliveries->second.size()) {
        Delivery delivery = deliveries->second[at++];
        delivery.send = send;
        delivery.shown = FirstToShow(channel, delivery);
        inbox.from[from].push_back({send, static_cast<int>(inbox.deliveries.size())});
        inbox.deliveries.push_back(delivery);
      } else {
        inbox.from[from].push_back({send, -1});
      }
    }
    for (const auto& [tag, deliveries] : by_tag)
      for (std::size_t i = next[tag]; i < deliveries.size(); ++i) Unclear(*channel.receiver, *deliveries[i].receive);
  }

  // Deliveries so far stand sender by sender.
  void Finish() {
    for (Inbox& inbox : inboxes_->all) {
      std::vector<int> order(inbox.deliveries.size()), place(order.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return BeforeInPosting(inbox.deliveries[a], inbox.deliveries[b]); });
      std::vector<Delivery> sorted;
      for (std::size_t i = 0; i < order.size(); ++i) {
        sorted.push_back(inbox.deliveries[order[i]]);
        place[order[i]] = static_cast<int>(i);
      }
      inbox.deliveries = std::move(sorted);
      for (auto& [from, messages] : inbox.from)
        for (Message& message : messages)
          if (message.delivery >= 0) message.delivery = place[message.delivery];
    }
  }

 private:
  // It was sent by then, and came no later than its receive.
  const Call* FirstToShow(const Channel& channel, const Delivery& delivery) const {
    const std::vector<const Call*>& probes = channel.receiver->probes;
    const std::int64_t sent_ns = view_.process(*channel.sender).At(delivery.send->entered_ns) - kClocksApartNs;
    const Call* first = nullptr;
    auto probe = std::lower_bound(probes.begin(), probes.end(), delivery.receive->slot,
                                  [](const Call* one, std::uint64_t slot) { return one->slot < slot; });
    while (probe != probes.begin()) {
      const Call& before = **--probe;
      if (before.returned_ns == 0) continue;
      if (view_.process(*channel.receiver).At(before.returned_ns) < sent_ns) break;
      const bool found = (before.flags & (format::kPolls | format::kNoPartner)) == 0;
      if (found && functions::IsProbe(before.function) &&
          ::ncclwatch::diagnosis::Takes(before, channel.sender->comm->rank, delivery.send->tag))
        first = &before;
    }
    return first;
  }

  static bool BeforeInPosting(const Delivery& a, const Delivery& b) { return a.posted < b.posted; }

  Inbox& InboxOf(int comm, const Member& receiver) {
    const auto [found, fresh] = index_.try_emplace({comm, receiver.comm->rank}, inboxes_->all.size());
    if (fresh) {
      inboxes_->all.emplace_back();
      inboxes_->all.back().comm = comm;
      inboxes_->all.back().receiver = &receiver;
    }
    return inboxes_->all[found->second];
  }

  const Probes& ProbesFor(const Member& member) {
    const auto [found, fresh] = probes_.try_emplace(&member);
    if (fresh) found->second = ProbesOf(member).TakeBound();
    return found->second;
  }

  void Unclear(const Member& receiver, const Call& receipt) {
    const std::int64_t over = std::max({receipt.entered_ns, receipt.returned_ns, receipt.completed_ns});
    inboxes_->unclear_until_ns = std::max(inboxes_->unclear_until_ns, view_.process(receiver).At(over));
  }

  const View& view_;
  Inboxes* const inboxes_;
  std::map<std::pair<int, std::uint32_t>, std::size_t> index_;
  std::map<const Member*, Probes> probes_;
};

}  // namespace

Inboxes MakeInboxes(const View& view, const Channels& channels) {
  Inboxes inboxes;
  Filler filler(view, &inboxes);
  for (const auto& [key, channel] : channels.all())
    if (channel.sender != nullptr && channel.receiver != nullptr) filler.Add(std::get<0>(key), channel);
  filler.Finish();
  return inboxes;
}

}  // namespace ncclwatch::diagnosis
