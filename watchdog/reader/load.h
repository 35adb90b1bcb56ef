// Plain fields of a black box that its process may be writing at this moment: read as single words. Acquire on each (no
// fence) keeps a second look at a commit word or generation behind them, also for ThreadSanitizer.
#pragma once

#include <atomic>

namespace ncclwatch::reader {

template <typename T>
T Load(const T& field) {
  T value;
  __atomic_load(&field, &value, __ATOMIC_ACQUIRE);
  return value;
}

template <typename T>
T Load(const std::atomic<T>& field) {
  return field.load(std::memory_order_acquire);
}

}  // namespace ncclwatch::reader
