#include "watchdog/exchange/net/loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

namespace ncclwatch::exchange {

std::int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

std::unique_ptr<Loop> Loop::Make(const Descriptors& descriptors) {
  std::unique_ptr<Loop> loop(new Loop(descriptors, -1));
  loop->epoll_ = loop->descriptors_.Keep(epoll_create1(EPOLL_CLOEXEC));
  return loop->epoll_ < 0 ? nullptr : std::move(loop);
}

Loop::~Loop() { descriptors_.Close(epoll_); }

bool Loop::Watch(int fd, std::uint32_t events, Source* source) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = source;
  return epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

void Loop::Change(int fd, std::uint32_t events, Source* source) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = source;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
}

void Loop::Forget(int fd, Source* source) {
  epoll_event event{};
  epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, &event);
  std::replace(batch_.begin(), batch_.end(), source, static_cast<Source*>(nullptr));
  std::replace(to_flush_.begin(), to_flush_.end(), source, static_cast<Source*>(nullptr));
}

void Loop::FlushLater(Source* source) { to_flush_.push_back(source); }

void Loop::DeferDelete(std::unique_ptr<Source> source) { buried_.push_back(std::move(source)); }

void Loop::FlushAll() {
  // What is flushed may be closed by it, and others with it.
  for (std::size_t i = 0; i < to_flush_.size(); ++i)
    if (Source* const source = std::exchange(to_flush_[i], nullptr)) source->Flush();
  to_flush_.clear();
}

void Loop::Wait(std::int64_t most_ns) {
  FlushAll();
  std::array<epoll_event, 256> events;
  // Rounded up: a time that is not over yet would be looked at in a busy loop.
  const std::int64_t most_ms = std::clamp<std::int64_t>((most_ns + 999'999) / 1'000'000, 0, 60'000);
  const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), static_cast<int>(most_ms));
  batch_.clear();
  for (int i = 0; i < ready; ++i) batch_.push_back(static_cast<Source*>(events[static_cast<std::size_t>(i)].data.ptr));
  for (std::size_t i = 0; i < batch_.size(); ++i)
    if (Source* const source = batch_[i]) source->Ready(events[i].events);
  batch_.clear();
  FlushAll();
  buried_.clear();
}

}  // namespace ncclwatch::exchange
