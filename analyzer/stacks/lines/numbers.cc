#include "analyzer/stacks/lines/numbers.h"

#include <dwarf.h>

#include <optional>
#include <span>
#include <utility>

namespace ncclwatch::stacks {
namespace {

constexpr std::size_t kMostVariables = 256;  // of a frame
constexpr int kMostDepth = 32;               // of scopes in scopes

struct Type {
  std::size_t bytes = 0;
  bool is_signed = false;
};

// None if it is no whole number.
std::optional<Type> WholeNumber(Dwarf_Die* variable) {
  Dwarf_Attribute attribute;
  Dwarf_Die type;
  Dwarf_Word encoding = 0;
  if (dwarf_attr_integrate(variable, DW_AT_type, &attribute) == nullptr ||
      dwarf_formref_die(&attribute, &type) == nullptr || dwarf_peel_type(&type, &type) != 0 ||
      dwarf_tag(&type) != DW_TAG_base_type || dwarf_attr(&type, DW_AT_encoding, &attribute) == nullptr ||
      dwarf_formudata(&attribute, &encoding) != 0 || (encoding != DW_ATE_signed && encoding != DW_ATE_unsigned))
    return std::nullopt;
  const int bytes = dwarf_bytesize(&type);
  if (bytes < 1 || bytes > 8) return std::nullopt;
  return Type{static_cast<std::size_t>(bytes), encoding == DW_ATE_signed};
}

std::int64_t Extended(std::uint64_t value, Type type) {
  const std::size_t unused = 64 - 8 * type.bytes;
  const auto shifted = static_cast<std::int64_t>(value << unused);
  return type.is_signed ? shifted >> unused : static_cast<std::int64_t>(static_cast<std::uint64_t>(shifted) >> unused);
}

std::span<const Dwarf_Op> ExpressionAt(Dwarf_Attribute* attribute, std::uint64_t address) {
  Dwarf_Op* operations = nullptr;
  std::size_t count = 0;
  if (dwarf_getlocation_addr(attribute, address, &operations, &count, 1) != 1) return {};
  return {operations, count};
}

// Runs the expressions that compilers write for local variables; any other operation makes the value unknown.
class Evaluation {
 public:
  Evaluation(const Frame& frame, std::uint64_t address, Dwarf_Die* function, Reader* memory)
      : frame_(frame), address_(address), function_(function), memory_(memory) {}

  std::optional<std::uint64_t> ValueOf(std::span<const Dwarf_Op> expression, Type type) {
    if (!Run(expression) || stack_.empty()) return std::nullopt;
    return is_value_ ? stack_.back() : Load(stack_.back(), type.bytes);
  }

 private:
  bool Run(std::span<const Dwarf_Op> expression) {
    for (const Dwarf_Op& operation : expression)
      if (is_value_ || !(Pushes(operation) || Computes(operation))) return false;
    return true;
  }

  bool Push(std::optional<std::uint64_t> value) {
    if (value) stack_.push_back(*value);
    return value.has_value();
  }

  std::optional<std::uint64_t> Register(unsigned number, std::uint64_t offset) const {
    const auto value = frame_.registers.Get(number);
    return value ? std::optional(*value + offset) : std::nullopt;
  }

  // One that is in a register itself.
  bool PushRegister(unsigned number) {
    is_value_ = true;
    return Push(Register(number, 0));
  }

  std::optional<std::uint64_t> FrameBase() const {
    Dwarf_Attribute attribute;
    if (dwarf_attr_integrate(function_, DW_AT_frame_base, &attribute) == nullptr) return std::nullopt;
    const auto expression = ExpressionAt(&attribute, address_);
    if (expression.size() != 1) return std::nullopt;
    const auto [atom, number, number2, offset] = expression.front();
    if (atom == DW_OP_call_frame_cfa) return frame_.base;
    if (atom >= DW_OP_reg0 && atom <= DW_OP_reg31) return Register(atom - DW_OP_reg0, 0);
    if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31) return Register(atom - DW_OP_breg0, number);
    return std::nullopt;
  }

  bool Pushes(const Dwarf_Op& operation) {
    const unsigned atom = operation.atom;
    if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31) return Push(atom - DW_OP_lit0);
    if (atom >= DW_OP_reg0 && atom <= DW_OP_reg31) return PushRegister(atom - DW_OP_reg0);
    if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31) return Push(Register(atom - DW_OP_breg0, operation.number));
    switch (atom) {
      case DW_OP_const1u:
      case DW_OP_const1s:
      case DW_OP_const2u:
      case DW_OP_const2s:
      case DW_OP_const4u:
      case DW_OP_const4s:
      case DW_OP_const8u:
      case DW_OP_const8s:
      case DW_OP_constu:
      case DW_OP_consts: return Push(operation.number);
      case DW_OP_fbreg: {
        const auto base = FrameBase();
        return Push(base ? std::optional(*base + operation.number) : std::nullopt);
      }
      default: return false;
    }
  }

  bool Computes(const Dwarf_Op& operation) {
    if (stack_.empty()) return false;
    switch (operation.atom) {
      case DW_OP_stack_value: return is_value_ = true;
      case DW_OP_plus_uconst: stack_.back() += operation.number; return true;
      case DW_OP_neg: stack_.back() = -stack_.back(); return true;
      case DW_OP_not: stack_.back() = ~stack_.back(); return true;
      case DW_OP_deref: return Deref(8);
      case DW_OP_deref_size: return Deref(operation.number);
      default: return Combines(operation.atom);
    }
  }

  bool Combines(unsigned atom) {
    if (stack_.size() < 2) return false;
    const std::uint64_t right = stack_.back();
    stack_.pop_back();
    std::uint64_t& left = stack_.back();
    switch (atom) {
      case DW_OP_plus: left += right; return true;
      case DW_OP_minus: left -= right; return true;
      case DW_OP_mul: left *= right; return true;
      case DW_OP_and: left &= right; return true;
      default: return false;
    }
  }

  bool Deref(std::size_t bytes) {
    const auto value = Load(stack_.back(), bytes);
    if (value) stack_.back() = *value;
    return value.has_value();
  }

  // The lowest bytes come first on the processors that stacks are read on.
  std::optional<std::uint64_t> Load(std::uint64_t address, std::size_t bytes) const {
    std::uint64_t value = 0;
    if (bytes > sizeof value || !memory_->Read(address, &value, bytes)) return std::nullopt;
    return value;
  }

  const Frame& frame_;
  const std::uint64_t address_;
  Dwarf_Die* const function_;
  Reader* const memory_;
  std::vector<std::uint64_t> stack_;
  bool is_value_ = false;
};

class Collection {
 public:
  Collection(std::uint64_t address, const Frame& frame, Reader* memory)
      : address_(address), frame_(frame), memory_(memory) {}

  void AddFunction(Dwarf_Die* function) {
    if (dwarf_haspc(function, address_) <= 0) return;
    function_ = function;
    AddScope(function, 0);
  }

  std::vector<Frame::Variable> Take() { return std::move(found_); }

 private:
  void AddScope(Dwarf_Die* scope, int depth) {
    Dwarf_Die child;
    if (depth > kMostDepth || dwarf_child(scope, &child) != 0) return;
    do {
      const int tag = dwarf_tag(&child);
      if (tag == DW_TAG_variable || tag == DW_TAG_formal_parameter)
        AddVariable(&child);
      else if ((tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine) && dwarf_haspc(&child, address_) > 0)
        AddScope(&child, depth + 1);
    } while (found_.size() < kMostVariables && dwarf_siblingof(&child, &child) == 0);
  }

  void AddVariable(Dwarf_Die* variable) {
    const char* const name = dwarf_diename(variable);
    const auto type = WholeNumber(variable);
    if (name == nullptr || !type) return;
    Dwarf_Attribute attribute;
    Dwarf_Sword constant = 0;
    if (dwarf_attr(variable, DW_AT_const_value, &attribute) != nullptr) {
      if (dwarf_formsdata(&attribute, &constant) == 0) found_.push_back({name, constant});
    } else if (dwarf_attr(variable, DW_AT_location, &attribute) != nullptr) {
      Evaluation evaluation(frame_, address_, function_, memory_);
      if (const auto value = evaluation.ValueOf(ExpressionAt(&attribute, address_), *type))
        found_.push_back({name, Extended(*value, *type)});
    }
  }

  const std::uint64_t address_;
  const Frame& frame_;
  Reader* const memory_;
  Dwarf_Die* function_ = nullptr;
  std::vector<Frame::Variable> found_;
};

}  // namespace

std::vector<Frame::Variable> NumbersIn(Dwarf_Die* unit, std::uint64_t address, const Frame& frame, Reader* memory) {
  Collection collection(address, frame, memory);
  const auto add = [](Dwarf_Die* function, void* to) -> int {
    static_cast<Collection*>(to)->AddFunction(function);
    return DWARF_CB_OK;
  };
  dwarf_getfuncs(unit, add, &collection, 0);
  return collection.Take();
}

}  // namespace ncclwatch::stacks
