#include "watchdog/exchange/tcp/acceptor.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <functional>

namespace ncclwatch::exchange {
namespace {

constexpr std::int64_t kFirstLineEvery_ns = 60'000'000'000, kLongestLineEvery_ns = 3600'000'000'000;
constexpr std::int64_t kAcceptorLooks_ns = 50'000'000;
// While others wait at the door: a dialer speaks at once, its hello is there with the connection. Who has said it needs
// one more round trip. Short, because those who wait come in one after the other: a stranger may keep thousands open.
constexpr std::int64_t kSilentStay_ns = 20'000'000, kPlausibleStay_ns = 1'000'000'000;
constexpr std::int64_t kFullPause_ns = 1'000'000'000;
constexpr int kAcceptsAtOnce = 64;

}  // namespace

class Acceptor::Door final : public Source {
 public:
  Door(Acceptor* acceptor, int fd, std::uint16_t port) : acceptor_(acceptor), fd_(fd), port_(port) {}
  ~Door() override {
    Loop* const loop = acceptor_->context_->loop;
    loop->Forget(fd_, this);
    loop->descriptors().Close(fd_);
  }
  void Ready(std::uint32_t) override { acceptor_->Open(this); }
  int fd() const { return fd_; }
  std::uint16_t port() const { return port_; }

 private:
  Acceptor* const acceptor_;
  const int fd_;
  const std::uint16_t port_;
};

Acceptor::Acceptor(TcpContext* context, Handler* handler) : context_(context), handler_(handler) {}
Acceptor::~Acceptor() = default;

std::uint16_t Acceptor::Listen(std::uint16_t port) {
  Descriptors& descriptors = context_->loop->descriptors();
  const std::optional<Endpoint> at = context_->place.At(port);
  if (!at) {
    errno = EADDRNOTAVAIL;
    return 0;
  }
  const int fd = ListenSocket(&descriptors, *at);
  if (fd < 0) return 0;
  const std::optional<Endpoint> local = LocalOf(fd);
  if (!local) {
    descriptors.Close(fd);
    return 0;
  }
  doors_.push_back(std::make_unique<Door>(this, fd, local->port));
  if (!context_->loop->Watch(fd, paused_ ? 0u : static_cast<std::uint32_t>(EPOLLIN), doors_.back().get())) {
    doors_.pop_back();
    return 0;
  }
  return local->port;
}

std::uint16_t Acceptor::ListenAnywhere() {
  const settings::BindAddress& bind = context_->place.bind();
  if (!bind.HasPorts()) return Listen(0);
  const Address& address = context_->setup.address;
  const auto meets = [&](std::uint16_t port) {
    return port == address.port || std::count(address.more_ports.begin(), address.more_ports.end(), port) > 0;
  };
  // Not all leaders of one machine at the same port first.
  const std::size_t many = bind.last - bind.first + 1u;
  const std::size_t from = std::hash<std::string>()(context_->setup.self.node) % many;
  for (const bool meeting : {false, true})
    for (std::size_t i = 0; i < many; ++i) {
      const auto port = static_cast<std::uint16_t>(bind.first + (from + i) % many);
      if (meets(port) != meeting) continue;
      if (const std::uint16_t got = Listen(port)) return got;
      if (errno != EADDRINUSE && errno != EACCES) return 0;
    }
  return 0;
}

bool Acceptor::ListensAt(std::uint16_t port) const {
  return std::any_of(doors_.begin(), doors_.end(), [port](const auto& door) { return door->port() == port; });
}

void Acceptor::SetPaused(bool paused) {
  if (std::exchange(paused_, paused) == paused) return;
  for (const auto& door : doors_)
    context_->loop->Change(door->fd(), paused ? 0u : static_cast<std::uint32_t>(EPOLLIN), door.get());
}

// A new connection takes the place of the oldest that has proved nothing: first of one that has said nothing, then of
// one whose hello could have been overheard. What one has said and nobody has read yet is read before.
bool Acceptor::MakeRoom(std::int64_t now_ns) {
  if (pending_.size() < kMostPending) return true;
  std::int64_t look_ns = now_ns + kAcceptorLooks_ns;
  for (const bool plausible : {false, true}) {
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      Connection* const connection = pending_[i].get();
      if (connection->proven() || connection->plausible() != plausible) continue;
      const std::int64_t until_ns = connection->born_ns() + (plausible ? kPlausibleStay_ns : kSilentStay_ns);
      if (now_ns < until_ns) {  // and the others of its kind are younger
        look_ns = std::min(look_ns, until_ns);
        break;
      }
      connection->Ready(EPOLLIN);
      if (pending_.size() < kMostPending) return true;
      if (connection->plausible() != plausible || connection->proven()) continue;
      Drop(connection, "had to make room before it had proved anything");
      return true;
    }
  }
  paused_until_ns_ = look_ns;
  return false;
}

void Acceptor::Open(Door* door) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    // Not full: those who wait are the kernel's to keep until there is a place.
    if (!MakeRoom(Now())) {
      full_ = false;
      return SetPaused(true);
    }
    Endpoint from;
    const int fd = AcceptSocket(&context_->loop->descriptors(), door->fd(), &from);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
      full_ = true;
      SetPaused(true);
      paused_until_ns_ = Now() + kFullPause_ns;
      if (!std::exchange(full_said_, true))
        context_->mailbox->Say("the exchange has no descriptor left for further nodes: raise `ulimit -n` or use Redis");
      return;
    }
    if (fd < 0) return;
    std::unique_ptr<Connection> connection =
        Connection::Accept(context_->loop, &context_->keys, &context_->counters, fd, from, this);
    if (connection) pending_.push_back(std::move(connection));
  }
}

std::unique_ptr<Connection> Acceptor::Release(Connection* connection) {
  const auto found =
      std::find_if(pending_.begin(), pending_.end(), [connection](const auto& one) { return one.get() == connection; });
  if (found == pending_.end()) return nullptr;
  std::unique_ptr<Connection> released = std::move(*found);
  pending_.erase(found);
  if (paused_ && !full_) SetPaused(false);
  return released;
}

void Acceptor::Drop(Connection* connection, const std::string& why) {
  // One that knew the token and was cut off is no stranger.
  if (connection->other_version()) {
    context_->SayVersion(connection->remote(), why);
  } else if (!connection->plausible()) {
    ++context_->counters.strangers_refused;
    ++strangers_;
    last_stranger_ = connection->remote().ToText() + " " + why;
    SayStrangers(Now());
  }
  if (std::unique_ptr<Connection> released = Release(connection)) {
    released->Close();
    context_->loop->DeferDelete(std::move(released));
  }
}

void Acceptor::SayStrangers(std::int64_t now_ns) {
  if (strangers_ == 0 || now_ns < next_line_ns_) return;
  context_->mailbox->Say(fmt::format("the exchange refused {} connection{} without the job's token, the last: {}",
                                     strangers_, strangers_ == 1 ? "" : "s", last_stranger_));
  strangers_ = 0;
  line_every_ns_ = next_line_ns_ == 0 ? kFirstLineEvery_ns : std::min(2 * line_every_ns_, kLongestLineEvery_ns);
  next_line_ns_ = now_ns + line_every_ns_;
}

void Acceptor::OnFrame(Connection* connection, Frame frame) {
  const std::optional<Join> join =
      frame.kind == static_cast<std::uint16_t>(Kind::kJoin) ? Join::Decode(frame.payload) : std::nullopt;
  if (!join) {
    ++context_->counters.messages_refused;
    return Drop(connection, "");
  }
  handler_->OnJoin(Release(connection), *join);
}

std::int64_t Acceptor::Limit_ns(const Connection& connection) const {
  const Timing& timing = context_->setup.timing;
  return connection.born_ns() + (connection.plausible() ? timing.handshake : timing.silence);
}

void Acceptor::Tick(std::int64_t now_ns) {
  std::vector<Connection*> late;
  for (const auto& connection : pending_)
    if (now_ns > Limit_ns(*connection)) late.push_back(connection.get());
  for (Connection* const connection : late) Drop(connection, "did not prove anything in time");
  if (paused_ && now_ns >= paused_until_ns_) SetPaused(false);
  SayStrangers(now_ns);
}

std::int64_t Acceptor::Due_ns() const {
  std::int64_t due = paused_ ? paused_until_ns_ : INT64_MAX;
  for (const auto& connection : pending_) due = std::min(due, Limit_ns(*connection) + 1);
  if (strangers_ > 0) due = std::min(due, next_line_ns_);
  return due;
}

}  // namespace ncclwatch::exchange
