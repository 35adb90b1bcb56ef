// Stores into the mapping that other threads and processes read at any moment: as atomics, so that the language agrees
// with what the processor does anyway. Relaxed: an ordinary move.
#pragma once

#include <atomic>

namespace ncclwatch::shim {

template <class T, class V>
[[gnu::always_inline]] inline void Put(T& field, V value) {
  std::atomic_ref<T>(field).store(static_cast<T>(value), std::memory_order_relaxed);
}

}  // namespace ncclwatch::shim
