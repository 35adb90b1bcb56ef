#include "watchdog/exchange/tcp/connection.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ncclwatch::exchange {
namespace {

// A peer that does not read costs no more than this, and it is room for some messages of the largest size.
constexpr std::size_t kMostParcels = 1024, kMostBytes = 8u << 20;
constexpr std::size_t kWire = 64 << 10;  // sealed in advance
constexpr int kReadsAtOnce = 4;          // of kRead: one that talks without end must not keep the others waiting
constexpr std::size_t kRead = 64 << 10;
constexpr std::size_t kMostBuffered = 64u << 20;    // all connections of a thread together
constexpr std::size_t kAlwaysBuffered = 128 << 10;  // each of them

}  // namespace

std::unique_ptr<Connection> Connection::Make(Loop* loop, const Keys* keys, Counters* counters, Session::Side side,
                                             int fd, const Endpoint& remote, Owner* owner) {
  const std::optional<Nonce> nonce = NewNonce();
  if (fd < 0) return nullptr;
  if (!nonce) {
    loop->descriptors().Close(fd);
    return nullptr;
  }
  std::unique_ptr<Connection> connection(new Connection(loop, keys, counters, side, *nonce, fd, remote, owner));
  const bool dialer = side == Session::Side::kDialer;
  connection->writing_ = dialer;
  if (!loop->Watch(fd, dialer ? EPOLLIN | EPOLLOUT : EPOLLIN, connection.get())) return nullptr;
  return connection;
}

std::unique_ptr<Connection> Connection::Dial(Loop* loop, const Keys* keys, Counters* counters, const Endpoint& to,
                                             const std::optional<Endpoint>& source, Owner* owner) {
  const int fd = DialSocket(&loop->descriptors(), to, source);
  return Make(loop, keys, counters, Session::Side::kDialer, fd, to, owner);
}

std::unique_ptr<Connection> Connection::Accept(Loop* loop, const Keys* keys, Counters* counters, int fd,
                                               const Endpoint& from, Owner* owner) {
  return Make(loop, keys, counters, Session::Side::kListener, fd, from, owner);
}

Connection::Connection(Loop* loop, const Keys* keys, Counters* counters, Session::Side side, const Nonce& nonce, int fd,
                       const Endpoint& remote, Owner* owner)
    : loop_(loop),
      counters_(counters),
      session_(side, keys, nonce),
      fd_(fd),
      remote_(remote),
      owner_(owner),
      connecting_(side == Session::Side::kDialer),
      outbox_(kMostParcels, kMostBytes),
      born_ns_(Now()),
      heard_ns_(born_ns_),
      moved_ns_(born_ns_) {
  wire_ = session_.TakeOutput();
}

Connection::~Connection() { Close(); }

void Connection::Close() {
  if (fd_ < 0) return;
  loop_->Forget(fd_, this);
  loop_->descriptors().Close(fd_);
  loop_->buffered -= std::exchange(held_, 0);
  fd_ = -1;
}

void Connection::End(const std::string& why) {
  if (fd_ < 0) return;
  Close();
  owner_->OnEnd(this, why);
}

bool Connection::Send(Parcel parcel) {
  if (fd_ < 0) return false;
  if (idle()) moved_ns_ = Now();
  if (!outbox_.Push(std::move(parcel), &counters_->summaries_dropped)) {
    ++counters_->messages_refused;
    return false;
  }
  if (!std::exchange(flush_asked_, true)) loop_->FlushLater(this);
  return true;
}

void Connection::Want(bool writing) {
  if (std::exchange(writing_, writing) != writing) loop_->Change(fd_, writing ? EPOLLIN | EPOLLOUT : EPOLLIN, this);
}

void Connection::Fill() {
  if (gone_ == wire_.size()) wire_.clear(), gone_ = 0;
  wire_ += session_.TakeOutput();
  if (!session_.proven()) return;
  while (wire_.size() - gone_ < kWire) {
    const std::optional<Parcel> parcel = outbox_.Pop();
    if (!parcel) break;
    session_.MessageAuthenticator(parcel->kind, parcel->head,
                                  parcel->body ? std::string_view(*parcel->body) : std::string_view(), &wire_);
  }
}

void Connection::Flush() {
  flush_asked_ = false;
  if (fd_ < 0 || connecting_) return;
  for (;;) {
    Fill();
    if (wire_.empty()) break;
    const ssize_t n = send(fd_, wire_.data() + gone_, wire_.size() - gone_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0 && (errno == ECONNRESET || errno == EPIPE)) return End(kWasClosed);
    if (n < 0) {
      char text[128];
      return End(strerror_r(errno, text, sizeof(text)));
    }
    gone_ += static_cast<std::size_t>(n);
    counters_->bytes_out += static_cast<std::uint64_t>(n);
    moved_ns_ = Now();
  }
  if (wire_.empty() && wire_.capacity() > 2 * kWire) wire_.shrink_to_fit();
  Want(!wire_.empty());
}

bool Connection::Take(std::string_view bytes) {
  const bool was_proven = session_.proven();
  counters_->bytes_in += bytes.size();
  const bool ok = session_.Feed(bytes);
  if (session_.proven()) heard_ns_ = Now();
  if (!was_proven && session_.proven()) owner_->OnProven(this);
  while (fd_ >= 0) {
    std::optional<Frame> frame = session_.Take();
    if (!frame) break;
    owner_->OnFrame(this, std::move(*frame));
  }
  if (fd_ < 0) return false;
  if (!ok) {
    ++counters_->messages_refused;
    const std::string last = session_.TakeOutput();  // which version is spoken here
    if (!last.empty() && wire_.empty()) counters_->bytes_out += send(fd_, last.data(), last.size(), MSG_NOSIGNAL) > 0;
    End(session_.why());
    return false;
  }
  loop_->buffered += session_.buffered() - held_;
  held_ = session_.buffered();
  if (held_ > kAlwaysBuffered && loop_->buffered > kMostBuffered) {
    End("sends more at once than there is room for");
    return false;
  }
  return true;
}

void Connection::Read() {
  std::array<char, kRead> buffer;
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const ssize_t n = recv(fd_, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    char text[128];
    if (n == 0 || (n < 0 && errno == ECONNRESET)) return End(kWasClosed);
    if (n < 0) return End(strerror_r(errno, text, sizeof(text)));
    if (!Take({buffer.data(), static_cast<std::size_t>(n)})) return;
    if (static_cast<std::size_t>(n) < buffer.size()) break;
  }
  // The handshake has something to say.
  if (!std::exchange(flush_asked_, true)) loop_->FlushLater(this);
}

void Connection::Ready(std::uint32_t events) {
  if (connecting_) {
    if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) return;
    char text[128];
    if (const int error = PendingError(fd_)) return End(strerror_r(error, text, sizeof(text)));
    connecting_ = false;
    return Flush();
  }
  if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) Read();
  if (fd_ >= 0 && (events & EPOLLOUT)) Flush();
}

}  // namespace ncclwatch::exchange
