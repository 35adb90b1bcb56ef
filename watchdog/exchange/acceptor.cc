#include "watchdog/exchange/acceptor.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace ncclwatch::exchange {
namespace {

constexpr std::int64_t kFirstLineEvery_ns = 60'000'000'000, kLongestLineEvery_ns = 3600'000'000'000;
constexpr std::int64_t kLookEvery_ns = 50'000'000;
// While others wait at the door: a dialer speaks at once, its hello is there with the connection. Who has said it needs
// one more round trip.
constexpr std::int64_t kSilentStay_ns = 250'000'000, kPlausibleStay_ns = 1'000'000'000;
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

Acceptor::Acceptor(Context* context, Handler* handler) : context_(context), handler_(handler) {}
Acceptor::~Acceptor() = default;

std::uint16_t Acceptor::Listen(const Endpoint& at) {
  Descriptors& descriptors = context_->loop->descriptors();
  const int fd = ListenSocket(&descriptors, at);
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

bool Acceptor::ListensAt(std::uint16_t port) const {
  return std::any_of(doors_.begin(), doors_.end(), [port](const auto& door) { return door->port() == port; });
}

void Acceptor::SetPaused(bool paused) {
  if (std::exchange(paused_, paused) == paused) return;
  for (const auto& door : doors_)
    context_->loop->Change(door->fd(), paused ? 0u : static_cast<std::uint32_t>(EPOLLIN), door.get());
}

bool Acceptor::MakeRoom(std::int64_t now_ns) {
  if (pending_.size() < kMostPending) return true;
  for (const std::int64_t stay : {kSilentStay_ns, kPlausibleStay_ns}) {
    const auto found = std::find_if(pending_.begin(), pending_.end(), [&](const auto& connection) {
      return now_ns - connection->born_ns() > stay && (stay == kPlausibleStay_ns || !connection->plausible());
    });
    if (found == pending_.end()) continue;
    Drop(found->get(), "had to make room before it had proved anything");
    return true;
  }
  return false;
}

void Acceptor::Open(Door* door) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    // Not full: those who wait are the kernel's to keep until there is a place.
    if (!MakeRoom(Now())) {
      full_ = false;
      SetPaused(true);
      paused_until_ns_ = Now() + kLookEvery_ns;
      return;
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
  if (!connection->plausible()) {
    ++context_->counters.strangers_refused;
    ++strangers_;
    last_stranger_ = connection->remote().ToText() + " " + why;
    SayStrangers(Now());
  }
  if (std::unique_ptr<Connection> released = Release(connection)) {
    released->Close();
    context_->loop->Bury(std::move(released));
  }
}

void Acceptor::SayStrangers(std::int64_t now_ns) {
  if (strangers_ == 0 || now_ns < next_line_ns_) return;
  context_->mailbox->Say("the exchange refused " + std::to_string(strangers_) +
                         (strangers_ == 1 ? " connection" : " connections") +
                         " without the job's token, the last: " + last_stranger_);
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

void Acceptor::Tick(std::int64_t now_ns) {
  std::vector<Connection*> late;
  for (const auto& connection : pending_)
    if (now_ns - connection->born_ns() > context_->setup.timing.handshake) late.push_back(connection.get());
  for (Connection* const connection : late) Drop(connection, "did not prove anything in time");
  if (paused_ && now_ns >= paused_until_ns_) SetPaused(false);
  SayStrangers(now_ns);
}

std::int64_t Acceptor::Due_ns() const {
  std::int64_t due = paused_ ? paused_until_ns_ : INT64_MAX;
  if (!pending_.empty()) due = std::min(due, pending_.front()->born_ns() + context_->setup.timing.handshake + 1);
  if (strangers_ > 0) due = std::min(due, next_line_ns_);
  return due;
}

}  // namespace ncclwatch::exchange
