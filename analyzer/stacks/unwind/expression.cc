// DWARF expressions, as far as call frame information may use them.
#include "analyzer/stacks/unwind/bytes_in_order.h"
#include "analyzer/stacks/unwind/cfi.h"

namespace ncclwatch::stacks {
namespace {

constexpr int kMostSteps = 1000;  // an expression may jump backwards

enum Operation : std::uint8_t {
  kAddr = 0x03,
  kDeref = 0x06,
  kConst1u = 0x08,
  kConst1s = 0x09,
  kConst2u = 0x0a,
  kConst2s = 0x0b,
  kConst4u = 0x0c,
  kConst4s = 0x0d,
  kConst8u = 0x0e,
  kConst8s = 0x0f,
  kConstu = 0x10,
  kConsts = 0x11,
  kDup = 0x12,
  kDrop = 0x13,
  kOver = 0x14,
  kPick = 0x15,
  kSwap = 0x16,
  kRot = 0x17,
  kAbs = 0x19,
  kAnd = 0x1a,
  kDiv = 0x1b,
  kMinus = 0x1c,
  kMod = 0x1d,
  kMul = 0x1e,
  kNeg = 0x1f,
  kNot = 0x20,
  kOr = 0x21,
  kPlus = 0x22,
  kPlusUconst = 0x23,
  kShl = 0x24,
  kShr = 0x25,
  kShra = 0x26,
  kXor = 0x27,
  kBra = 0x28,
  kEq = 0x29,
  kGe = 0x2a,
  kGt = 0x2b,
  kLe = 0x2c,
  kLt = 0x2d,
  kNe = 0x2e,
  kSkip = 0x2f,
  kLit0 = 0x30,
  kReg0 = 0x50,
  kBreg0 = 0x70,
  kBregx = 0x92,
  kDerefSize = 0x94,
  kNop = 0x96,
};

class Machine {
 public:
  Machine(const Expression& expression, const Registers& registers, Reader* memory)
      : code_(expression), registers_(registers), memory_(memory) {}

  std::optional<std::uint64_t> Run(std::optional<std::uint64_t> initial) {
    if (initial) Push(*initial);
    for (int step = 0; ok_ && !code_.AtEnd(); ++step) {
      if (step == kMostSteps) return std::nullopt;
      const auto operation = code_.Take<std::uint8_t>();
      if (!Constant(operation) && !Shuffle(operation) && !Jump(operation) && !Unary(operation)) Binary(operation);
    }
    if (!ok_ || !code_.ok() || stack_.empty()) return std::nullopt;
    return stack_.back();
  }

 private:
  using Word = std::uint64_t;
  static std::int64_t AsSigned(Word value) { return static_cast<std::int64_t>(value); }
  static Word Extended(std::int64_t value) { return static_cast<Word>(value); }

  void Push(Word value) { stack_.push_back(value); }
  Word Pop() {
    if (stack_.empty()) {
      ok_ = false;
      return 0;
    }
    const Word value = stack_.back();
    stack_.pop_back();
    return value;
  }
  void PushFromTop(std::size_t index) { index < stack_.size() ? Push(stack_[stack_.size() - 1 - index]) : Fail(); }
  void PushRegister(unsigned number, std::int64_t offset) {
    const auto value = registers_.Get(number);
    value ? Push(*value + Extended(offset)) : Fail();
  }
  void Load(std::size_t bytes) {
    Word value = 0;  // little end first on both processors
    if (bytes > sizeof(value) || !memory_->Read(Pop(), &value, bytes)) return Fail();
    Push(value);
  }
  void Fail() { ok_ = false; }

  bool Constant(std::uint8_t operation) {
    if (operation >= kLit0 && operation < kReg0) return Push(operation - kLit0), true;
    if (operation >= kBreg0 && operation < kBreg0 + 32) return PushRegister(operation - kBreg0, code_.Signed()), true;
    switch (operation) {
      case kAddr:
      case kConst8u:
      case kConst8s: Push(code_.Take<std::uint64_t>()); return true;
      case kConst1u: Push(code_.Take<std::uint8_t>()); return true;
      case kConst1s: Push(Extended(code_.Take<std::int8_t>())); return true;
      case kConst2u: Push(code_.Take<std::uint16_t>()); return true;
      case kConst2s: Push(Extended(code_.Take<std::int16_t>())); return true;
      case kConst4u: Push(code_.Take<std::uint32_t>()); return true;
      case kConst4s: Push(Extended(code_.Take<std::int32_t>())); return true;
      case kConstu: Push(code_.Unsigned()); return true;
      case kConsts: Push(Extended(code_.Signed())); return true;
      case kBregx: {
        const auto number = static_cast<unsigned>(code_.Unsigned());
        PushRegister(number, code_.Signed());
        return true;
      }
      default: return false;
    }
  }

  bool Shuffle(std::uint8_t operation) {
    switch (operation) {
      case kDup: PushFromTop(0); return true;
      case kDrop: Pop(); return true;
      case kOver: PushFromTop(1); return true;
      case kPick: PushFromTop(code_.Take<std::uint8_t>()); return true;
      case kSwap: {
        const Word top = Pop(), below = Pop();
        Push(top);
        Push(below);
        return true;
      }
      case kRot: {
        const Word top = Pop(), second = Pop(), third = Pop();
        Push(top);
        Push(third);
        Push(second);
        return true;
      }
      case kNop: return true;
      default: return false;
    }
  }

  bool Jump(std::uint8_t operation) {
    if (operation != kSkip && operation != kBra) return false;
    const auto distance = code_.Take<std::int16_t>();
    if (operation == kSkip || Pop() != 0) code_.Skip(distance);
    return true;
  }

  bool Unary(std::uint8_t operation) {
    switch (operation) {
      case kDeref: Load(sizeof(Word)); return true;
      case kDerefSize: Load(code_.Take<std::uint8_t>()); return true;
      case kAbs: {
        const Word value = Pop();
        Push(AsSigned(value) < 0 ? 0 - value : value);
        return true;
      }
      case kNeg: Push(0 - Pop()); return true;
      case kNot: Push(~Pop()); return true;
      case kPlusUconst: Push(Pop() + code_.Unsigned()); return true;
      default: return false;
    }
  }

  void Binary(std::uint8_t operation) {
    const Word b = Pop(), a = Pop();
    switch (operation) {
      case kAnd: return Push(a & b);
      case kOr: return Push(a | b);
      case kXor: return Push(a ^ b);
      case kPlus: return Push(a + b);
      case kMinus: return Push(a - b);
      case kMul: return Push(a * b);
      case kDiv:
        if (b == 0) return Fail();
        return Push(b == ~Word{0} ? 0 - a : Extended(AsSigned(a) / AsSigned(b)));
      case kMod: return b == 0 ? Fail() : Push(a % b);
      case kShl: return Push(b < 64 ? a << b : 0);
      case kShr: return Push(b < 64 ? a >> b : 0);
      case kShra: return Push(Extended(AsSigned(a) >> (b < 64 ? b : 63)));
      case kEq: return Push(a == b);
      case kNe: return Push(a != b);
      case kGe: return Push(AsSigned(a) >= AsSigned(b));
      case kGt: return Push(AsSigned(a) > AsSigned(b));
      case kLe: return Push(AsSigned(a) <= AsSigned(b));
      case kLt: return Push(AsSigned(a) < AsSigned(b));
      default: Fail();
    }
  }

  BytesInOrder code_;
  const Registers& registers_;
  Reader* memory_;
  std::vector<Word> stack_;
  bool ok_ = true;
};

}  // namespace

std::optional<std::uint64_t> Evaluate(const Expression& expression, const Registers& registers, Reader* memory,
                                      std::optional<std::uint64_t> initial) {
  return Machine(expression, registers, memory).Run(initial);
}

}  // namespace ncclwatch::stacks
