#include "watchdog/exchange/tcp/uplink.h"

#include <algorithm>
#include <utility>

namespace ncclwatch::exchange {
namespace {

constexpr std::size_t kMostWaiting = 32;
constexpr std::int64_t kMostPing_ns = 10'000'000'000;

std::int64_t PingOf(std::uint32_t ping_ms) {
  return std::clamp<std::int64_t>(ping_ms * std::int64_t{1'000'000}, 1'000'000, kMostPing_ns);
}

}  // namespace

Uplink::Uplink(TcpContext* context, Handler* handler, std::unique_ptr<Connection> connection, const Welcome& welcome,
               const std::optional<AdaptiveTimeout>& before)
    : context_(context),
      handler_(handler),
      connection_(std::move(connection)),
      welcome_(welcome),
      term_(welcome.term),
      ping_ns_(PingOf(welcome.ping_ms)),
      patience_(before ? before->Again(Now()) : AdaptiveTimeout(context->setup.timing, Now())) {
  connection_->SetOwner(this);
}

Uplink::~Uplink() {
  if (!said_leave_ && !connection_->closed()) {
    context_->lingering.Take(std::move(connection_));
    return;
  }
  connection_->Close();
  context_->loop->DeferDelete(std::move(connection_));
}

void Uplink::SayLeave() {
  said_leave_ = true;
  connection_->Send(static_cast<std::uint16_t>(Kind::kLeave), {});
}

// What waits in the mailbox can still go to the next hub; what waits here goes down with this one.
bool Uplink::HasRoom() const { return connection_->waiting() < kMostWaiting; }

void Uplink::Send(const Outgoing& outgoing) {
  Parcel parcel{static_cast<std::uint16_t>(Kind::kMessage), outgoing.droppable,
                Envelope{outgoing.type, term_, outgoing.to}.Encode(), outgoing.body};
  if (connection_->Send(std::move(parcel))) ++context_->counters.messages_out;
}

void Uplink::Tick(std::int64_t now_ns) {
  const std::int64_t heard_ns = std::max(context_->awake_ns, connection_->heard_ns());
  if (silent_ && now_ns - heard_ns > DoubtFor_ns(context_->setup.timing))
    return handler_->OnHubLost(this, kWasSilent, std::nullopt);
  if (!silent_ && patience_.IsOver(now_ns, heard_ns)) {
    silent_ = true;
    return handler_->OnHubSilent(this);
  }
  if (now_ns < next_ping_ns_) return;
  next_ping_ns_ = now_ns + ping_ns_;
  const ClockOffset offset = clock_.Best(now_ns).value_or(ClockOffset());
  connection_->Send(static_cast<std::uint16_t>(Kind::kPing), Ping{Now(), offset.offset_ns, offset.error_ns}.Encode());
}

void Uplink::OnMessage(const Frame& frame) {
  std::string_view body;
  const std::optional<Envelope> envelope = Envelope::Decode(frame.payload, &body);
  if (!envelope) {
    ++context_->counters.messages_refused;
    return;
  }
  ++context_->counters.messages_in;
  context_->mailbox->Deliver(
      {envelope->type, envelope->other, envelope->term, std::string(body), connection_->guessable()});
}

void Uplink::OnPong(const Pong& pong) { clock_.Add(pong.sent_ns, pong.came_ns, pong.left_ns, Now()); }

void Uplink::OnFrame(Connection*, Frame frame) {
  patience_.Heard(Now());
  if (std::exchange(silent_, false)) handler_->OnHubHeard(this);
  switch (static_cast<Kind>(frame.kind)) {
    case Kind::kMessage: return OnMessage(frame);
    case Kind::kPong:
      if (const std::optional<Pong> pong = Pong::Decode(frame.payload)) OnPong(*pong);
      return;
    case Kind::kSuccession:
      if (std::optional<SuccessionList> list = SuccessionList::Decode(frame.payload)) {
        term_ = std::max(term_, list->term);
        ping_ns_ = PingOf(list->ping_ms);
        handler_->OnSuccessionList(*list);
      }
      return;
    case Kind::kElsewhere: return handler_->OnHubLost(this, "gives way", Redirect::Decode(frame.payload));
    case Kind::kLeave:
      return handler_->OnHubLost(this, frame.payload == kWasSilent ? kWasSilent : kHasLeft, std::nullopt);
    default: return;  // of a later version
  }
}

Peer Uplink::HubPeer(std::int64_t now_ns) const {
  Peer peer;
  peer.node = welcome_.node;
  peer.host = welcome_.host;
  peer.address = at().ToText();
  peer.incarnation = welcome_.incarnation;
  if (const std::optional<ClockOffset> offset = clock_.Best(now_ns)) {
    peer.clock_offset_ns = offset->offset_ns;
    peer.clock_error_ns = offset->error_ns;
  }
  peer.last_heard_ns = patience_.heard_ns();
  peer.connected = peer.hub = true;
  peer.guessable = guessable();
  return peer;
}

}  // namespace ncclwatch::exchange
