#include "watchdog/exchange/redis/link.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

namespace ncclwatch::exchange {
namespace {

constexpr std::size_t kMostWaiting = 16u << 20;
constexpr std::size_t kRead = 64 << 10;
constexpr int kReadsAtOnce = 16;

std::string ErrorText(int error) {
  char text[128];
  return strerror_r(error, text, sizeof(text));
}

}  // namespace

std::unique_ptr<RedisLink> RedisLink::Dial(Context* context, const Endpoint& to, const TlsTrust* trust, Owner* owner) {
  const int fd = DialSocket(&context->loop->descriptors(), to);
  if (fd < 0) return nullptr;
  std::unique_ptr<RedisLink> link(new RedisLink(context, fd, trust, owner));
  if (!context->loop->Watch(fd, EPOLLIN | EPOLLOUT, link.get())) return nullptr;
  return link;
}

RedisLink::RedisLink(Context* context, int fd, const TlsTrust* trust, Owner* owner)
    : context_(context), fd_(fd), owner_(owner), tls_(trust ? std::make_unique<TlsStream>(*trust, fd) : nullptr) {
  LogIn();
}

RedisLink::~RedisLink() { Close(); }

void RedisLink::Close() {
  if (fd_ < 0) return;
  context_->loop->Forget(fd_, this);
  context_->loop->descriptors().Close(fd_);
  fd_ = -1;
}

void RedisLink::End(const std::string& why) {
  if (fd_ < 0) return;
  Close();
  owner_->OnEnd(this, why);
}

ssize_t RedisLink::Send(std::string_view bytes) {
  return tls_ ? tls_->Send(bytes) : send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

ssize_t RedisLink::Receive(char* to, std::size_t most) {
  return tls_ ? tls_->Receive(to, most) : recv(fd_, to, most, 0);
}

void RedisLink::EndByError() { End(tls_ && errno == EPROTO ? std::string(tls_->why()) : ErrorText(errno)); }

// TLS may have to read before it can write, and the other way round.
void RedisLink::Watch() {
  const bool writing = tls_ && waiting() > 0 ? tls_->wants_to_write() : waiting() > 0;
  if (std::exchange(writing_, writing) != writing)
    context_->loop->Change(fd_, writing ? EPOLLIN | EPOLLOUT : EPOLLIN, this);
}

// Said at once behind the connection; the last reply decides.
void RedisLink::LogIn() {
  const Address& address = context_->setup.address;
  const auto check = [this](const Reply& reply) {
    if (reply.IsError()) End(reply.text);
  };
  if (!address.password.empty()) {
    std::vector<std::string_view> words = {"AUTH"};
    if (!address.user.empty()) words.push_back(address.user);
    words.push_back(address.password);
    Command(words, check);
  }
  if (address.database != 0) Command({"SELECT", std::to_string(address.database)}, check);
  Command({"PING"}, [this](const Reply& reply) {
    if (reply.IsError()) return End(reply.text);
    ready_ = true;
    owner_->OnReady(this);
  });
}

void RedisLink::Command(const std::vector<std::string_view>& words, Then then, std::int64_t patience_ns) {
  if (fd_ < 0) return;
  AppendCommand(words, &out_);
  expected_.push_back({std::move(then), Now() + patience_ns});
  if (!std::exchange(flush_asked_, true)) context_->loop->FlushLater(this);
}

void RedisLink::Flush() {
  flush_asked_ = false;
  if (fd_ < 0 || connecting_) return;
  if (waiting() > kMostWaiting) return End("does not take what it is sent");
  while (waiting() > 0) {
    const ssize_t n = Send(std::string_view(out_).substr(gone_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) return EndByError();
    gone_ += static_cast<std::size_t>(n);
    context_->counters.bytes_out += static_cast<std::uint64_t>(n);
  }
  if (waiting() == 0) {
    out_.clear();
    gone_ = 0;
    if (out_.capacity() > kRead) out_.shrink_to_fit();
  }
  Watch();
}

void RedisLink::Read() {
  std::array<char, kRead> buffer;
  for (int i = 0; i < kReadsAtOnce && fd_ >= 0; ++i) {
    const ssize_t n = Receive(buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) return EndByError();
    if (n == 0) return End("closed the connection");
    context_->counters.bytes_in += static_cast<std::uint64_t>(n);
    reader_.Feed({buffer.data(), static_cast<std::size_t>(n)});
    while (fd_ >= 0) {
      const std::unique_ptr<Reply> reply = reader_.Take();
      if (!reply) break;
      if (expected_.empty()) return End("answers what was not asked");
      const Then then = std::move(expected_.front().then);
      expected_.pop_front();
      if (then) then(*reply);
    }
    if (reader_.Failed()) return End(reader_.why());
    if (static_cast<std::size_t>(n) < buffer.size() && !tls_) break;  // TLS gives one of its records at a time
  }
  // What came may be what TLS waited for to write.
  if (tls_ && fd_ >= 0 && waiting() > 0) Flush();
}

void RedisLink::Ready(std::uint32_t events) {
  if (connecting_) {
    if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) return;
    if (const int error = PendingError(fd_)) return End(ErrorText(error));
    connecting_ = false;
    return Flush();
  }
  if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) Read();
  if (fd_ >= 0 && (events & EPOLLOUT)) Flush();
}

void RedisLink::Tick(std::int64_t now_ns) {
  if (expected_.empty()) return;
  // While this thread did not run, no reply could be seen.
  if (now_ns > expected_.front().until_ns && now_ns - context_->awake_ns > kPatience_ns) End("does not answer");
}

std::int64_t RedisLink::Due_ns() const { return expected_.empty() ? INT64_MAX : expected_.front().until_ns + 1; }

}  // namespace ncclwatch::exchange
