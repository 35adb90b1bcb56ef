#include "analyzer/stacks/unwind/unwind.h"

#include <algorithm>

#include "analyzer/stacks/unwind/cfi.h"
#include "analyzer/stacks/unwind/processor.h"

namespace ncclwatch::stacks {
namespace {

constexpr std::uint64_t kSearch = 64 << 10;  // bytes of one frame that are searched for its return address

class Walker {
 public:
  Walker(const Registers& from, Reader* stack, Memory* memory, Modules* modules)
      : registers_(from), stack_(stack), memory_(memory), modules_(modules) {}

  Walk Run() {
    bool exact = true;
    for (;;) {
      walk_.frames.push_back({registers_.pc, exact, guessed_});
      guessed_ = false;
      if (walk_.frames.size() == kMostFrames) return End(Ending::kCut);
      if (const auto ending = Step(exact)) return End(*ending);
      exact = signal_frame_;  // a signal came between two instructions, not in a call
    }
  }

 private:
  Walk End(Ending ending) {
    walk_.ending = ending;
    return std::move(walk_);
  }

  // To the caller's registers; how it ends if there is none.
  std::optional<Ending> Step(bool exact) {
    const std::uint64_t place = exact ? registers_.pc : registers_.pc - 1;
    const Module* const module = modules_->At(place);
    const auto row = module && module->file ? RowAt(module->file.get(), place - module->bias) : std::nullopt;
    signal_frame_ = row && row->signal_frame;
    if (!row) return ByFramePointer();
    if (row->rules[row->return_register].kind == Rule::Kind::kUndefined) return Ending::kOutermost;
    auto frame = FrameAddress(*row);
    if (!frame) {
      frame = SearchFrame(*row, row->function + module->bias);
      if (!frame) return Ending::kUnknown;
    }
    return Apply(*row, *frame);
  }

  std::optional<std::uint64_t> FrameAddress(const Row& row) {
    if (!row.frame_expression.empty()) return Evaluate(row.frame_expression, registers_, stack_, std::nullopt);
    const auto base = registers_.Get(row.frame_register);
    if (!base) return std::nullopt;
    return *base + static_cast<std::uint64_t>(row.frame_offset);
  }

  std::optional<std::uint64_t> ValueBy(const Rule& rule, unsigned number, std::uint64_t frame) {
    const auto loaded = [this](std::optional<std::uint64_t> address) {
      return address ? stack_->Value<std::uint64_t>(*address) : std::nullopt;
    };
    switch (rule.kind) {
      case Rule::Kind::kUndefined: return std::nullopt;
      case Rule::Kind::kSame: return registers_.Get(number);
      case Rule::Kind::kAt: return loaded(frame + static_cast<std::uint64_t>(rule.offset));
      case Rule::Kind::kIs: return frame + static_cast<std::uint64_t>(rule.offset);
      case Rule::Kind::kRegister: return registers_.Get(static_cast<unsigned>(rule.offset));
      case Rule::Kind::kAtExpression: return loaded(Evaluate(rule.expression, registers_, stack_, frame));
      case Rule::Kind::kIsExpression: return Evaluate(rule.expression, registers_, stack_, frame);
      case Rule::Kind::kUnsaid: break;
    }
    const auto kept = processor::Preserved();
    // The link register is what the caller's call left in it as long as nothing says where it was saved.
    if (std::find(kept.begin(), kept.end(), number) != kept.end() || number == processor::kLink)
      return registers_.Get(number);
    return std::nullopt;
  }

  std::optional<Ending> Apply(const Row& row, std::uint64_t frame) {
    const auto sp = registers_.Get(processor::kStackPointer);
    const auto back = ValueBy(row.rules[row.return_register], row.return_register, frame);
    if (!back) return row.rules[row.return_register].kind == Rule::Kind::kAt ? Ending::kUnreadable : Ending::kUnknown;
    Registers caller;
    caller.pc = processor::PlainAddress(*back);
    for (unsigned number = 0; number < kRegisters; ++number)
      if (const auto value = ValueBy(row.rules[number], number, frame)) caller.Set(number, *value);
    if (row.rules[processor::kStackPointer].kind == Rule::Kind::kUnsaid) caller.Set(processor::kStackPointer, frame);
    if (caller.pc == 0) return Ending::kOutermost;
    // Frames lie one above the other; only a signal's frame may lead to another stack, and only a leaf has an empty
    // one.
    const bool leaf = walk_.frames.size() == 1 || walk_.frames.back().exact;
    if (sp && !row.signal_frame && (leaf ? frame < *sp : frame <= *sp)) return Ending::kNonsense;
    if (!modules_->maps().At(caller.pc)) return Ending::kNonsense;
    registers_ = caller;
    return std::nullopt;
  }

  // Code without a table: made at run time, or hand-written.
  std::optional<Ending> ByFramePointer() {
    const auto sp = registers_.Get(processor::kStackPointer), fp = registers_.Get(processor::kFramePointer);
    if (!sp || !fp) return Ending::kNoTable;
    const auto saved = stack_->Value<std::uint64_t>(*fp), back = stack_->Value<std::uint64_t>(*fp + 8);
    if (*fp < *sp || *fp - *sp > kSearch || *fp % 8 != 0 || !saved || !back) return Ending::kNoTable;
    const std::uint64_t plain = processor::PlainAddress(*back);
    if (!IsReturnAddress(plain)) return Ending::kNoTable;
    registers_ = Registers();
    registers_.pc = plain;
    registers_.Set(processor::kStackPointer, *fp + 16);
    registers_.Set(processor::kFramePointer, *saved);
    guessed_ = true;
    return std::nullopt;
  }

  bool IsReturnAddress(std::uint64_t address) {
    const Mapping* const mapping = modules_->maps().At(address);
    return mapping && mapping->executable && processor::CallBefore(memory_, address);
  }

  bool Leads(std::uint64_t target, std::uint64_t function) {
    if (target == function) return true;
    const auto slot = processor::StubTarget(memory_, target);
    return slot && *slot == function;
  }

  // Where the frame address cannot be computed: the nearest word that can be the return address of this function. Sure
  // if the instruction before it calls just this function, and nothing nearer could be one as well.
  std::optional<std::uint64_t> SearchFrame(const Row& row, std::uint64_t function) {
    const Rule& back = row.rules[row.return_register];
    const auto sp = registers_.Get(processor::kStackPointer);
    if (!sp || back.kind != Rule::Kind::kAt) return std::nullopt;
    const std::uint64_t step = processor::kStackAlignment;
    std::optional<std::uint64_t> likely, unlikely;
    std::optional<std::uint64_t> sure;
    const std::uint64_t first = (*sp + step) & ~(step - 1);
    for (std::uint64_t frame = first; frame < first + kSearch && !sure; frame += step) {
      const auto word = stack_->Value<std::uint64_t>(frame + static_cast<std::uint64_t>(back.offset));
      if (!word) break;
      const std::uint64_t plain = processor::PlainAddress(*word);
      const Mapping* const mapping = modules_->maps().At(plain);
      if (!mapping || !mapping->executable) continue;
      const auto call = processor::CallBefore(memory_, plain);
      if (!call) continue;
      if (call->target && Leads(*call->target, function))
        sure = frame;
      else if (!call->target && !likely)
        likely = frame;
      else if (call->target && !unlikely)
        unlikely = frame;
    }
    guessed_ = !sure || likely;
    const auto found = sure ? sure : likely ? likely : unlikely;
    if (found && row.frame_expression.empty())
      registers_.Set(row.frame_register, *found - static_cast<std::uint64_t>(row.frame_offset));
    return found;
  }

  Registers registers_;
  Reader* stack_;
  Memory* memory_;
  Modules* modules_;
  Walk walk_;
  bool signal_frame_ = false;
  bool guessed_ = false;
};

}  // namespace

bool Walk::sure() const {
  return ending != Ending::kUnknown &&
         std::none_of(frames.begin(), frames.end(), [](const RawFrame& frame) { return frame.guessed; });
}

Walk Unwind(const Registers& from, Reader* stack, Memory* memory, Modules* modules) {
  return Walker(from, stack, memory, modules).Run();
}

}  // namespace ncclwatch::stacks
