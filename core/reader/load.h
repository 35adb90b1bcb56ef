// Plain fields of a black box that its process may be writing at this moment: read as single words. Acquire on each (no
// fence) keeps a second look at a commit word or generation behind them, also for ThreadSanitizer.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

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

// Up to its zero, or all of it.
template <std::size_t N>
std::string Text(const char (&text)[N]) {
  std::string copy;
  for (const char& letter : text) {
    const char value = Load(letter);
    if (value == 0) break;
    copy += value;
  }
  return copy;
}

}  // namespace ncclwatch::reader
