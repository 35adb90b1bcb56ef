#include "tests/unit/exchange/relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <deque>
#include <list>
#include <random>
#include <string>
#include <vector>

namespace ncclwatch::testing {
namespace {

std::int64_t RelayNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int Listening(std::uint16_t* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  bind(fd, reinterpret_cast<sockaddr*>(&address), length);
  listen(fd, 1024);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  *port = ntohs(address.sin_port);
  return fd;
}

struct Piece {
  std::string bytes;
  std::int64_t due_ns;
};

struct Direction {
  int from = -1, to = -1;
  std::deque<Piece> pieces;
};

struct Carried {
  int ends[2] = {-1, -1};
  Direction directions[2];  // 0: to the target
  bool over = false;
};

}  // namespace

struct Relay::State {
  int listener = -1;
  std::list<Carried> all;
  std::mt19937 random{11};
  bool Happens(int per_mille) { return static_cast<int>(random() % 1000) < per_mille; }
};

std::uint16_t FreePort() {
  std::uint16_t port = 0;
  close(Listening(&port));
  return port;
}

Relay::Relay(std::uint16_t target) : state_(std::make_unique<State>()), target_(target) {
  state_->listener = Listening(&port_);
  thread_ = std::thread([this] { Run(); });
}

Relay::~Relay() {
  stop_ = true;
  thread_.join();
  for (Carried& one : state_->all)
    for (const int fd : one.ends) close(fd);
  close(state_->listener);
}

void Relay::Set(const Faults& faults) {
  const std::lock_guard lock(mutex_);
  faults_ = faults;
}

Faults Relay::faults() {
  const std::lock_guard lock(mutex_);
  return faults_;
}

void Relay::Run() {
  while (!stop_) {
    const Faults now = faults();
    std::vector<pollfd> fds = {{state_->listener, POLLIN, 0}};
    for (Carried& one : state_->all)
      for (const int fd : one.ends) fds.push_back({fd, POLLIN, 0});
    poll(fds.data(), fds.size(), 1);
    for (int fd; (fd = accept4(state_->listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
      ++called_;
      const int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = Loopback(target_);
      if (connect(other, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        close(other);
        close(fd);
        continue;
      }
      fcntl(other, F_SETFL, O_NONBLOCK);
      const int one = 1;
      for (const int end : {fd, other}) setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
      Carried& carried = state_->all.emplace_back();
      carried.ends[0] = carried.directions[0].from = carried.directions[1].to = fd;
      carried.ends[1] = carried.directions[0].to = carried.directions[1].from = other;
    }
    for (Carried& one : state_->all) {
      for (int w = 0; w < 2; ++w) {
        Direction& direction = one.directions[w];
        char buffer[16384];
        const ssize_t n = recv(direction.from, buffer, sizeof(buffer), 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) one.over = true;
        if (n > 0 && !now.swallow) {
          std::string bytes(buffer, static_cast<std::size_t>(n));
          const bool corrupted = state_->Happens(now.corrupted), repeated = state_->Happens(now.repeated),
                     left_out = state_->Happens(now.left_out);
          if (state_->Happens(now.cut)) one.over = true;
          damaged_ += corrupted || repeated || left_out || one.over;
          if (corrupted) bytes[state_->random() % bytes.size()] ^= static_cast<char>(1 << state_->random() % 8);
          if (repeated) bytes += bytes;
          if (left_out) bytes.erase(state_->random() % bytes.size(), 1 + state_->random() % 64);
          direction.pieces.push_back({std::move(bytes), RelayNow() + now.delay_ns + (w == 1 ? now.back_delay_ns : 0)});
        }
        while (!direction.pieces.empty() && direction.pieces.front().due_ns <= RelayNow()) {
          std::string& bytes = direction.pieces.front().bytes;
          const ssize_t sent = send(direction.to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
          if (sent > 0) bytes.erase(0, static_cast<std::size_t>(sent));
          if (!bytes.empty()) break;
          direction.pieces.pop_front();
        }
      }
      if (one.over)
        for (const int fd : one.ends) close(fd);
    }
    std::erase_if(state_->all, [](const Carried& one) { return one.over; });
  }
}

}  // namespace ncclwatch::testing
