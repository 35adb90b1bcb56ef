// The memory of a Python process that never was, laid out as any version has it.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "watchdog/cpython/layout.h"

namespace ncclwatch::stacks::python::testing {

using namespace cpython;

struct FakeFrame {
  std::uint64_t code = 0;
  int instruction = 0;  // index, of two bytes each
  bool entry = false;
  int copy = 0;
};

class FakeProcess : public Reader {
 public:
  static constexpr std::uint64_t kBase = 0x7f0000000000;

  FakeProcess(int minor, bool free_threaded);

  bool Read(std::uint64_t address, void* to, std::size_t bytes) override;
  void Forget() override;

  std::uint64_t Allocate(std::size_t bytes);
  template <typename T>
  void Put(std::uint64_t address, T value) {
    std::memcpy(&memory_.at(address - kBase + sizeof(T) - 1) - (sizeof(T) - 1), &value, sizeof(T));
  }
  std::uint64_t Type(const std::string& name);
  std::uint64_t Object(const std::string& type, std::size_t bytes);
  std::uint64_t Str(const std::u32string& text);
  std::uint64_t Bytes(const std::string& bytes);
  std::uint64_t Code(const std::u32string& name, const std::u32string& file, int first_line, const std::string& lines);
  // Innermost first; frames that stand for a C caller are put in where the version has them. The innermost's address.
  std::uint64_t Frames(const std::vector<FakeFrame>& frames);
  std::uint64_t Interpreter(std::int64_t id);
  std::uint64_t Thread(std::uint64_t interpreter, std::uint64_t descriptor, std::uint64_t native, std::uint64_t frame);
  std::uint64_t Descriptor(std::uint64_t tid_offset, std::int32_t tid);  // pthread_t
  void Hold(std::uint64_t interpreter, std::uint64_t thread);            // the lock

  const Layout& layout() const { return layout_; }
  std::uint64_t runtime() const { return runtime_; }
  std::vector<std::uint8_t>& memory() { return memory_; }
  std::size_t reads() const { return reads_; }
  // Called at each Forget(), with its number: what the process changes meanwhile.
  std::function<void(int)> meanwhile;

  std::uint64_t At(std::uint64_t base, Field field) const { return base + static_cast<std::uint64_t>(layout_[field]); }
  void PutPointer(std::uint64_t base, Field field, std::uint64_t value) { Put(At(base, field), value); }
  void PutInt(std::uint64_t base, Field field, std::int32_t value) { Put(At(base, field), value); }

 private:
  void SayOffsets();

  Layout layout_;
  std::vector<std::uint8_t> memory_;
  std::unordered_map<std::string, std::uint64_t> types_;
  std::unordered_map<std::uint64_t, std::uint64_t> last_thread_;  // of an interpreter
  std::uint64_t runtime_ = 0, last_interpreter_ = 0;
  std::size_t reads_ = 0;
  int forgets_ = 0;
};

}  // namespace ncclwatch::stacks::python::testing
