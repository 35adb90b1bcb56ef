// Unwind paths: from an inner call up the stack to the call in progress that it serves, as they were once unwound. A
// tool goes the same one at each call, and looking at the few words that mark it costs a hundredth of unwinding it
// again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ncclwatch::shim {

// A wrapper's frame, and the return address that lies in it.
struct Entrance {
  std::uintptr_t frame;
  std::uint64_t site;
};

// What lies on the stack while a way is gone: the return addresses between two wrappers, and the frame pointers that
// are saved there. A return address says how large the frame above it is, or else that frame has a pointer: if all of
// them are in their places, from the lowest up, then unwinding would find the same frames. No word is read before those
// below it have shown that it is in use.
class UnwindPath {
 public:
  UnwindPath(const Entrance& from, std::uintptr_t to);
  // A frame on the way, in order: what its stack pointer is, and its return address.
  void Pass(std::uintptr_t stack_pointer, std::uint64_t address);
  // Keeps it for good, if all of it could be seen, up to the upper wrapper's return address, and there is room.
  void Keep() const;

 private:
  friend bool IsKnownUnwindPath(const Entrance& from, const Entrance& to);
  static constexpr std::size_t kMostWords = 24;
  struct Word {
    std::uintptr_t place = 0;       // from `from_` on
    bool is_frame_pointer = false;  // counted from there too
    std::uint64_t value = 0;
  };
  struct Place;
  static Place& PlaceOf(std::uint64_t site, std::uintptr_t length, std::size_t tried);

  constexpr UnwindPath() = default;
  void Add(std::uintptr_t place, bool is_frame_pointer, std::uint64_t value);
  void FollowFramePointers(std::uintptr_t below);
  bool IsGone(std::uintptr_t from) const;

  std::uintptr_t from_ = 0;
  std::uintptr_t length_ = 0;
  std::uint64_t site_ = 0;
  std::uintptr_t passed_ = 0;
  std::uintptr_t frame_pointer_ = 0;  // where the next one is saved, 0: no more of them
  std::size_t words_ = 0;
  bool seen_ = false;  // all so far
  bool whole_ = false;
  Word word_[kMostWords] = {};
};

bool IsKnownUnwindPath(const Entrance& from, const Entrance& to);

}  // namespace ncclwatch::shim
