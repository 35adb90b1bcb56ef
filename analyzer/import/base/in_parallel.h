// Many files, read by as many threads as a disk serves.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

namespace ncclwatch::analyzer::import {

// read(i) for each of so many files; done(n) when n have been read, one thread at a time.
template <class Read, class Done>
void InParallel(std::size_t files, const Read& read, const Done& done) {
  constexpr std::size_t kMostThreads = 16;
  std::atomic<std::size_t> next = 0;
  std::size_t finished = 0;
  std::mutex mutex;
  const auto work = [&] {
    for (std::size_t i = next++; i < files; i = next++) {
      read(i);
      const std::lock_guard lock(mutex);
      done(++finished);
    }
  };
  std::vector<std::jthread> others;
  const std::size_t threads = std::min<std::size_t>({std::thread::hardware_concurrency(), kMostThreads, files});
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
  work();
}

}  // namespace ncclwatch::analyzer::import
