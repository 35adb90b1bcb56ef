#include "shim/lifecycle/words/cfi.h"
#include "shim/lifecycle/words/cursor.h"

namespace ncclwatch::shim {
namespace {

constexpr int kDepth = 16;

class Stack {
 public:
  void Push(std::uint64_t value) {
    if (used_ == kDepth)
      failed_ = true;
    else
      values_[used_++] = value;
  }
  std::uint64_t Pop() {
    if (used_ > 0) return values_[--used_];
    failed_ = true;
    return 0;
  }
  bool failed() const { return failed_; }
  bool empty() const { return used_ == 0; }

 private:
  std::uint64_t values_[kDepth] = {};
  int used_ = 0;
  bool failed_ = false;
};

// DWARF 4, section 7.7.1: the operations that compilers and hand-written tables put into call frame information.
enum : unsigned char {
  kAddress = 0x03,
  kDereference = 0x06,
  kConstant1u = 0x08,
  kConstant1s = 0x09,
  kConstant2u = 0x0a,
  kConstant2s = 0x0b,
  kConstant4u = 0x0c,
  kConstant4s = 0x0d,
  kConstant8u = 0x0e,
  kConstant8s = 0x0f,
  kConstantU = 0x10,
  kConstantS = 0x11,
  kDuplicate = 0x12,
  kDrop = 0x13,
  kSwap = 0x16,
  kAnd = 0x1a,
  kMinus = 0x1c,
  kMultiply = 0x1e,
  kNegate = 0x1f,
  kNot = 0x20,
  kOr = 0x21,
  kPlus = 0x22,
  kPlusConstant = 0x23,
  kShiftLeft = 0x24,
  kShiftRight = 0x25,
  kExclusiveOr = 0x27,
  kEqual = 0x29,
  kGreaterOrEqual = 0x2a,
  kGreater = 0x2b,
  kLessOrEqual = 0x2c,
  kLess = 0x2d,
  kNotEqual = 0x2e,
  kLiteral0 = 0x30,
  kRegister0 = 0x50,
  kBase0 = 0x70,
  kBaseAny = 0x92,
  kNothing = 0x96,
};

std::uint64_t Combine(unsigned char operation, std::uint64_t a, std::uint64_t b) {
  const auto x = static_cast<std::int64_t>(a), y = static_cast<std::int64_t>(b);
  switch (operation) {
    case kAnd: return a & b;
    case kMinus: return a - b;
    case kMultiply: return a * b;
    case kOr: return a | b;
    case kPlus: return a + b;
    case kShiftLeft: return b < 64 ? a << b : 0;
    case kShiftRight: return b < 64 ? a >> b : 0;
    case kExclusiveOr: return a ^ b;
    case kEqual: return x == y;
    case kGreaterOrEqual: return x >= y;
    case kGreater: return x > y;
    case kLessOrEqual: return x <= y;
    case kLess: return x < y;
    default: return x != y;  // kNotEqual
  }
}

bool Constant(unsigned char operation, Cursor* code, Stack* stack) {
  const auto push = [&](auto value) { stack->Push(static_cast<std::uint64_t>(value)); };
  switch (operation) {
    case kAddress:
    case kConstant8u:
    case kConstant8s: push(code->Fixed<std::uint64_t>()); return true;
    case kConstant1u: push(code->Fixed<std::uint8_t>()); return true;
    case kConstant1s: push(std::int64_t{code->Fixed<std::int8_t>()}); return true;
    case kConstant2u: push(code->Fixed<std::uint16_t>()); return true;
    case kConstant2s: push(std::int64_t{code->Fixed<std::int16_t>()}); return true;
    case kConstant4u: push(code->Fixed<std::uint32_t>()); return true;
    case kConstant4s: push(std::int64_t{code->Fixed<std::int32_t>()}); return true;
    case kConstantU: push(code->Unsigned()); return true;
    case kConstantS: push(code->Signed()); return true;
    default: return false;
  }
}

bool Base(std::uint64_t number, std::int64_t offset, const Registers& registers, Stack* stack) {
#if defined(__x86_64__)
  const std::uint64_t value = number == 16 ? registers.pc : number < Registers::kCount ? registers.value[number] : 0;
#else
  const std::uint64_t value = number < Registers::kCount ? registers.value[number] : 0;
#endif
  if (number >= Registers::kCount) return false;
  stack->Push(value + static_cast<std::uint64_t>(offset));
  return true;
}

bool Unary(unsigned char operation, Cursor* code, Stack* stack) {
  const std::uint64_t a = stack->Pop();
  std::uint64_t read = 0;
  switch (operation) {
    case kDereference:
      if (!ReadSelf(a, &read)) return false;
      stack->Push(read);
      return true;
    case kDuplicate:
      stack->Push(a);
      stack->Push(a);
      return true;
    case kDrop: return true;
    case kNegate: stack->Push(0 - a); return true;
    case kNot: stack->Push(~a); return true;
    case kPlusConstant: stack->Push(a + code->Unsigned()); return true;
    case kSwap: {
      const std::uint64_t b = stack->Pop();
      stack->Push(a);
      stack->Push(b);
      return true;
    }
    default: return false;
  }
}

bool IsBinary(unsigned char operation) {
  return operation == kAnd || operation == kMinus || operation == kMultiply || operation == kOr || operation == kPlus ||
         operation == kShiftLeft || operation == kShiftRight || operation == kExclusiveOr ||
         (operation >= kEqual && operation <= kNotEqual);
}

bool Execute(unsigned char operation, const Registers& registers, Cursor* code, Stack* stack) {
  if (operation >= kLiteral0 && operation < kRegister0) {
    stack->Push(operation - kLiteral0);
    return true;
  }
  if (operation >= kBase0 && operation < kBase0 + 32) {
    const std::int64_t offset = code->Signed();
    return Base(operation - kBase0, offset, registers, stack);
  }
  if (operation == kBaseAny) {
    const std::uint64_t number = code->Unsigned();
    return Base(number, code->Signed(), registers, stack);
  }
  if (operation == kNothing || Constant(operation, code, stack)) return true;
  if (!IsBinary(operation)) return Unary(operation, code, stack);
  const std::uint64_t b = stack->Pop();
  const std::uint64_t a = stack->Pop();
  stack->Push(Combine(operation, a, b));
  return true;
}

}  // namespace

bool Evaluate(std::uint64_t address, std::uint64_t bytes, const Registers& registers, const std::uint64_t* first,
              std::uint64_t* value) {
  Stack stack;
  if (first) stack.Push(*first);
  Cursor code(address, address + bytes);
  while (!code.done())
    if (!Execute(code.Byte(), registers, &code, &stack) || stack.failed()) return false;
  if (code.failed() || stack.empty()) return false;
  *value = stack.Pop();
  return true;
}

}  // namespace ncclwatch::shim
