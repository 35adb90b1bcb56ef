// The walk from a thread's innermost frame to the first of the program. Two ways to look at the same memory: Trusted
// for what the calling thread's own frames keep alive while it is inside a call, Copied for everything else.
#pragma once

#include <cstdint>
#include <cstring>

#include "ncclwatch/format/fingerprint.h"
#include "shim/base/self_memory.h"
#include "shim/python/interpreter.h"
#include "watchdog/cpython/reader.h"

namespace ncclwatch::shim::pyframes {

// Of its frames and code, from its layout.
void SetSizes(Interpreter* python);

// The state of the main thread, 0 if it cannot be found.
std::uint64_t MainThread(const Interpreter& interpreter);

// Reads this process's memory by system calls: what is not there is an answer, not a crash.
class OwnMemory : public cpython::Reader {
 public:
  bool Read(std::uint64_t address, void* to, std::size_t bytes) override;
};

// What a walk through another thread's frames has read of them. While it is still the same, that thread stands at the
// same line.
class Trail {
 public:
  void Clear() { pieces_ = bytes_ = 0; }
  void Add(std::uint64_t address, const char* content, std::size_t bytes);
  bool IsUnchanged() const;  // one system call

 private:
  static constexpr std::size_t kPieces = 48, kBytes = 4096;

  std::size_t pieces_ = 0, bytes_ = 0;  // kPieces + 1: there were more
  std::uint64_t address_[kPieces];
  std::size_t size_[kPieces];
  char content_[kBytes];
};

// At(): bytes of an object; null: they cannot be read. Live(): of what changes while its thread runs.
struct Trusted {
  const char* At(std::uint64_t address, std::size_t) { return reinterpret_cast<const char*>(address); }
  const char* Live(std::uint64_t address, std::size_t bytes) { return At(address, bytes); }
};

class Copied {
 public:
  // Valid until the next call.
  const char* At(std::uint64_t address, std::size_t bytes) {
    return bytes <= sizeof buffer_ && ReadSelf(address, buffer_, bytes) ? buffer_ : nullptr;
  }
  const char* Live(std::uint64_t address, std::size_t bytes) {
    const char* const from = At(address, bytes);
    if (from && trail_) trail_->Add(address, from, bytes);
    return from;
  }
  // Where what was live is kept.
  void Follow(Trail* trail) { trail_ = trail; }

 private:
  Trail* trail_ = nullptr;
  char buffer_[512];
};

struct Frame {
  std::uint64_t code = 0;  // 0: it stands for a caller in C
  std::uint64_t previous = 0;
  std::int64_t instruction = 0;
  std::int32_t copy = 0;
};

// An address alone may be another object's next time: what is kept of a code object holds for one that points to the
// same things.
struct Code {
  std::uint64_t name = 0, lines = 0;
  std::int32_t first_line = 0;
};

template <class T>
T FieldOf(const char* base, const cpython::Layout& layout, cpython::Field field) {
  T value;
  std::memcpy(&value, base + layout[field], sizeof value);
  return value;
}

inline bool CanBeObject(std::uint64_t address) {
  constexpr std::uint64_t kAlign = 8, kEnd = std::uint64_t{1} << 56;
  return address % kAlign == 0 && address >= kSmallestPage && address < kEnd;
}

template <class Memory>
class Frames {
 public:
  explicit Frames(const Interpreter& python) : python_(python), layout_(python.layout) {}

  Memory& memory() { return memory_; }

  // Of a PyThreadState: its innermost frame, 0: it has none. False: this cannot be one.
  bool Innermost(std::uint64_t state, std::uint64_t* frame) {
    *frame = 0;
    std::uint64_t at = state + Offset(cpython::kThreadFrame);
    if (layout_.Has(cpython::kCFrameFrame)) {
      std::uint64_t c_frame = 0;
      if (!LivePointer(at, &c_frame)) return false;
      if (c_frame == 0) return true;
      at = c_frame + Offset(cpython::kCFrameFrame);
    }
    return LivePointer(at, frame) && (*frame == 0 || CanBeObject(*frame));
  }

  bool Read(std::uint64_t address, Frame* frame) {
    constexpr std::uint64_t kTagBits = 7;  // of a pointer in a _PyStackRef, from 3.14 on
    constexpr std::uint8_t kLastOwner = 4;
    const char* const from = memory_.Live(address, python_.frame_bytes);
    if (!from) return false;
    frame->previous = FieldOf<std::uint64_t>(from, layout_, cpython::kFramePrevious);
    if (frame->previous != 0 && !CanBeObject(frame->previous)) return false;
    frame->code = 0;
    if (layout_.Has(cpython::kFrameOwner)) {
      const auto owner = FieldOf<std::uint8_t>(from, layout_, cpython::kFrameOwner);
      if (owner > kLastOwner) return false;
      if (owner >= cpython::kFirstShimOwner) return true;
    }
    frame->code = FieldOf<std::uint64_t>(from, layout_, cpython::kFrameCode) & ~kTagBits;
    frame->copy =
        layout_.Has(cpython::kFrameCodeCopy) ? FieldOf<std::int32_t>(from, layout_, cpython::kFrameCodeCopy) : 0;
    frame->instruction = layout_.minor <= 10 ? FieldOf<std::int32_t>(from, layout_, cpython::kFrameInstruction)
                                             : FieldOf<std::int64_t>(from, layout_, cpython::kFrameInstruction);
    return CanBeObject(frame->code);
  }

  // The object that names a code object's file.
  bool FileOf(std::uint64_t code, std::uint64_t* file) {
    const char* const from = memory_.At(code + Offset(cpython::kCodeFile), sizeof *file);
    if (from) std::memcpy(file, from, sizeof *file);
    return from && CanBeObject(*file);
  }

  // False: it is no code object.
  bool Read(std::uint64_t address, Code* code) {
    const char* const from = memory_.At(address, python_.code_bytes);
    if (!from || FieldOf<std::uint64_t>(from, layout_, cpython::kObjectType) != python_.code_type) return false;
    code->name = FieldOf<std::uint64_t>(
        from, layout_, layout_.Has(cpython::kCodeQualifiedName) ? cpython::kCodeQualifiedName : cpython::kCodeName);
    code->lines = FieldOf<std::uint64_t>(from, layout_, cpython::kCodeLines);
    code->first_line = FieldOf<std::int32_t>(from, layout_, cpython::kCodeFirstLine);
    return CanBeObject(code->name) && CanBeObject(code->lines);
  }

  // Of what the names and the table of lines hold, by their lengths and ends: strings too have addresses that others
  // had before.
  std::uint64_t Content(std::uint64_t file, const Code& code) {
    const std::uint64_t names = format::Mix(OfText(file), OfText(code.name));
    return format::Mix(names, OfBytes(code.lines, cpython::kBytesLength, cpython::kBytesData));
  }

 private:
  static constexpr std::uint64_t kEnds = 32;  // bytes from either end

  std::uint64_t Offset(cpython::Field field) const { return static_cast<std::uint64_t>(layout_[field]); }

  bool LivePointer(std::uint64_t address, std::uint64_t* value) {
    const char* const from = memory_.Live(address, sizeof *value);
    if (from) std::memcpy(value, from, sizeof *value);
    return from != nullptr;
  }

  std::uint64_t OfText(std::uint64_t object) { return OfBytes(object, cpython::kStrLength, cpython::kStrAscii); }

  std::uint64_t OfBytes(std::uint64_t object, cpython::Field length_at, cpython::Field data_at) {
    const char* const from = memory_.At(object + Offset(length_at), sizeof(std::uint64_t));
    if (!from) return 0;
    std::uint64_t length = 0;
    std::memcpy(&length, from, sizeof length);
    const std::uint64_t data = object + Offset(data_at);
    if (length <= 2 * kEnds) return length + OfPiece(data, length);
    return length + OfPiece(data, kEnds) + 3 * OfPiece(data + length - kEnds, kEnds);
  }

  // Words are summed with factors of their own, so that no step waits for the one before it.
  std::uint64_t OfPiece(std::uint64_t address, std::uint64_t bytes) {
    const char* const from = memory_.At(address, bytes);
    std::uint64_t sum = 0, factor = 0x9e3779b97f4a7c15ull, word = 0;
    if (!from) return sum;
    std::uint64_t at = 0;
    for (; at + sizeof word <= bytes; at += sizeof word, factor += 0x6a09e667f3bcc908ull) {
      std::memcpy(&word, from + at, sizeof word);
      sum += (word ^ word >> 32) * factor;
    }
    for (word = 0; at < bytes; ++at) word = word << 8 | static_cast<std::uint8_t>(from[at]);
    return sum + word * factor;
  }

  const Interpreter& python_;
  const cpython::Layout& layout_;
  Memory memory_;
};

}  // namespace ncclwatch::shim::pyframes
