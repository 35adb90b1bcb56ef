// What waits to be sent on one connection, or to be taken by another thread: bounded. Where it is full the oldest
// summaries go first; what is no summary is never dropped once it is in, and refused where there is no room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace ncclwatch::exchange {

// T has droppable and bytes().
template <typename T>
class BoundedQueue {
 public:
  BoundedQueue(std::size_t most, std::size_t most_bytes) : most_(most), most_bytes_(most_bytes) {}

  // False: no room. *dropped grows by what had to go.
  bool Push(T one, std::uint64_t* dropped) {
    while (!Fits(one)) {
      if (!DropOldest()) return false;
      ++*dropped;
    }
    bytes_ += one.bytes();
    queue_.push_back(std::move(one));
    return true;
  }
  std::optional<T> Pop() {
    if (queue_.empty()) return std::nullopt;
    T one = std::move(queue_.front());
    queue_.pop_front();
    if (first_droppable_ > 0) --first_droppable_;
    bytes_ -= one.bytes();
    return one;
  }
  bool empty() const { return queue_.empty(); }
  std::size_t size() const { return queue_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  bool Fits(const T& one) const { return queue_.size() < most_ && bytes_ + one.bytes() <= most_bytes_; }
  bool DropOldest() {
    while (first_droppable_ < queue_.size() && !queue_[first_droppable_].droppable) ++first_droppable_;
    if (first_droppable_ == queue_.size()) return false;
    bytes_ -= queue_[first_droppable_].bytes();
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(first_droppable_));
    return true;
  }

  const std::size_t most_, most_bytes_;
  std::deque<T> queue_;
  std::size_t bytes_ = 0;
  std::size_t first_droppable_ = 0;  // none before it is
};

// One frame that is not sealed yet.
struct Parcel {
  std::uint16_t kind = 0;
  bool droppable = false;
  std::string head;
  std::shared_ptr<const std::string> body;  // shared where it goes to many
  std::size_t bytes() const { return head.size() + (body ? body->size() : 0) + 64; }
};

}  // namespace ncclwatch::exchange
