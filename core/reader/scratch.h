// Memory for one file after the other, aligned to a page: fresh pages for each of thousands would cost more than
// reading them. What the last one left in it stays.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace ncclwatch::reader {

class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { Free(); }
  void* Of(std::size_t bytes) {  // null: there is not so much
    if (bytes <= bytes_) return memory_;
    Free();
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    bytes_ = bytes;
    return memory_ = memory;
  }

 private:
  void Free() {
    if (bytes_ != 0) ::munmap(memory_, bytes_);
    bytes_ = 0;
  }

  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ncclwatch::reader
