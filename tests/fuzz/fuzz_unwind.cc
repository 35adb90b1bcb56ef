// Unwind tables of any bytes, and stacks of any words above this process's own code. What must hold: no crash, an end
// within bounds, and no step that is not taken upwards.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "analyzer/stacks/unwind/processor.h"
#include "analyzer/stacks/unwind/step.h"
#include "analyzer/stacks/unwind/unwind.h"
#include "tests/fuzz/input.h"
#include "tests/stacks/table_image.h"

namespace {

using namespace ncclwatch::stacks;
using ncclwatch::fuzz::Input;
using ncclwatch::fuzz::Require;

constexpr std::uint64_t kBias = 0x7f0000000000, kStack = 0x7ffe00001000;

class Repeating : public Reader {
 public:
  explicit Repeating(std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes)) {}
  bool Read(std::uint64_t address, void* to, std::size_t bytes) override {
    if (bytes_.empty() || address % 3 == 1) return false;
    for (std::size_t i = 0; i < bytes; ++i) static_cast<std::uint8_t*>(to)[i] = bytes_[(address + i) % bytes_.size()];
    return true;
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

Registers SomeRegisters(Input* input, std::uint64_t pc) {
  Registers registers;
  registers.pc = pc;
  registers.Set(processor::kStackPointer, kStack);
  const std::uint64_t known = input->Number(2);
  for (unsigned number = 0; number < 16; ++number)
    if ((known >> number & 1) != 0) registers.Set(number, kStack + std::uint64_t{input->Next()} * 8);
  return registers;
}

void OneStep(Input* input) {
  const bool signal = input->Next() % 2 != 0, exact = input->Next() % 2 != 0;
  const Registers registers = SomeRegisters(input, kBias + testing::kFunction + input->Number(2) % 0x1100);
  const auto common = input->Bytes(input->Next() % 64);
  const auto own = input->Bytes(input->Number(2) % 4096);
  Module module{"",    "",
                kBias, kBias + (16 << 20),
                kBias, testing::FileOf(testing::TableBytes(common, own, signal ? "zRS" : "zR"))};
  Require(module.file != nullptr);
  Repeating stack(input->Bytes(64));
  const Place place{registers, exact, &module, &stack};
  Stepper stepper;
  const Step step = stepper.ToCaller(place);
  if (step.result == Step::Result::kUnknown) {
    Require(step.missing < kRegisters && !registers.Get(step.missing));
    stepper.ShapeAt(place, step.missing);
  }
  Require(step.result != Step::Result::kCaller || step.caller.pc != 0);
}

void WholeWalk(Input* input) {
  static Memory memory(getpid());
  static Modules modules(&memory, nullptr);
  std::vector<std::uint64_t> code;  // first addresses of what may be executed
  for (const Mapping& mapping : modules.maps().all())
    if (mapping.executable && mapping.end - mapping.begin > 0x1000) code.push_back(mapping.begin);
  Require(!code.empty());
  const auto somewhere = [&] { return code[input->Next() % code.size()] + input->Number(3); };
  const Registers registers = SomeRegisters(input, somewhere());
  std::vector<std::uint64_t> words(512);
  for (std::uint64_t& word : words) {
    const std::uint8_t what = input->Next();
    word = what % 3 == 0 ? somewhere() : what % 3 == 1 ? kStack + std::uint64_t{what} * 8 : input->Number(8);
  }
  CopiedStretch stack(kStack, std::as_bytes(std::span(words)), &memory);
  const Walk walk = Unwind(registers, &stack, &memory, &modules);
  Require(!walk.frames.empty() && walk.frames.size() <= kMostFrames && walk.frames.front().pc == registers.pc);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{data, size};
  if (input.Next() % 4 == 0)
    WholeWalk(&input);
  else
    OneStep(&input);
  return 0;
}
