#include "analyzer/stacks/unwind/unwind.h"

#include <algorithm>
#include <memory>

#include "analyzer/stacks/unwind/processor.h"
#include "analyzer/stacks/unwind/step.h"

namespace ncclwatch::stacks {
namespace {

constexpr std::uint64_t kSearch = 64 << 10;  // bytes of one frame that are searched for its return address

Stepper* StepperOf(Modules* modules) {
  if (!modules->learnt) modules->learnt = std::make_unique<Stepper>();
  return static_cast<Stepper*>(modules->learnt.get());
}

class Walker {
 public:
  Walker(const Registers& from, Reader* stack, Memory* memory, Modules* modules)
      : registers_(from), stack_(stack), memory_(memory), modules_(modules), stepper_(StepperOf(modules)) {}

  Walk Run() {
    bool exact = true;
    for (;;) {
      walk_.frames.push_back({registers_.pc, exact, guessed_, registers_, std::nullopt});
      guessed_ = false;
      if (walk_.frames.size() == kMostFrames) return End(Ending::kCut);
      if (const auto ending = ToCaller(exact)) return End(*ending);
      exact = signal_frame_;  // a signal came between two instructions, not in a call
    }
  }

 private:
  Walk End(Ending ending) {
    walk_.ending = ending;
    return std::move(walk_);
  }

  // To the caller's registers; how it ends if there is none.
  std::optional<Ending> ToCaller(bool exact) {
    const Place place{registers_, exact, modules_->At(exact ? registers_.pc : registers_.pc - 1), stack_};
    Step step = stepper_->ToCaller(place);
    if (step.result == Step::Result::kUnknown) {
      const auto shape = stepper_->ShapeAt(place, step.missing);
      const auto frame = shape ? SearchFrame(*shape) : std::nullopt;
      if (!frame) return Ending::kUnknown;
      if (shape->frame_offset) {
        registers_.Set(step.missing, *frame - static_cast<std::uint64_t>(*shape->frame_offset));
        step = stepper_->ToCaller(place);
      } else {
        step = ReturnFrom(*shape, *frame);
      }
    }
    signal_frame_ = step.signal_frame;
    switch (step.result) {
      case Step::Result::kCaller: return Take(step.caller);
      case Step::Result::kOutermost: return Ending::kOutermost;
      case Step::Result::kNoTable: return exact && !IsCode(registers_.pc) ? OutOfNowhere() : ByFramePointer();
      case Step::Result::kUnknown: return Ending::kUnknown;
      case Step::Result::kUnreadable: return Ending::kUnreadable;
    }
    return Ending::kNonsense;
  }

  // All that is known of the caller where only the frame's address is.
  Step ReturnFrom(const Shape& shape, std::uint64_t frame) {
    Step step;
    const auto back = stack_->Value<std::uint64_t>(frame + static_cast<std::uint64_t>(shape.return_offset));
    step.result = back ? Step::Result::kCaller : Step::Result::kUnreadable;
    step.caller.pc = processor::PlainAddress(back.value_or(0));
    step.caller.Set(processor::kStackPointer, frame);
    return step;
  }

  std::optional<Ending> Take(const Registers& caller) {
    const auto sp = registers_.Get(processor::kStackPointer), frame = caller.Get(processor::kStackPointer);
    // Frames lie one above the other; only a signal's frame may lead to another stack, and only a leaf has an empty
    // one.
    const bool leaf = walk_.frames.size() == 1 || walk_.frames.back().exact;
    if (sp && frame && !signal_frame_ && (leaf ? *frame < *sp : *frame <= *sp)) return Ending::kNonsense;
    if (!modules_->maps().At(caller.pc)) return Ending::kNonsense;
    if (!signal_frame_) walk_.frames.back().base = frame;
    registers_ = caller;
    return std::nullopt;
  }

  // A call through a pointer that leads nowhere: nothing has been done but the call itself.
  std::optional<Ending> OutOfNowhere() {
    const auto sp = registers_.Get(processor::kStackPointer);
    const bool on_stack = processor::kLink == kRegisters;
    const auto back = !on_stack ? registers_.Get(processor::kLink) : sp ? stack_->Value<std::uint64_t>(*sp) : sp;
    if (!back || !IsReturnAddress(processor::PlainAddress(*back))) return Ending::kNoTable;
    registers_.pc = processor::PlainAddress(*back);
    if (on_stack) registers_.Set(processor::kStackPointer, *sp + sizeof(*back));
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

  bool IsCode(std::uint64_t address) const {
    const Mapping* const mapping = modules_->maps().At(address);
    return mapping && mapping->executable;
  }

  bool IsReturnAddress(std::uint64_t address) { return IsCode(address) && processor::CallBefore(memory_, address); }

  bool Leads(std::uint64_t target, std::uint64_t function) {
    if (target == function) return true;
    const auto slot = processor::StubTarget(memory_, target);
    return slot && *slot == function;
  }

  // Where the frame address cannot be computed: the nearest word that can be the return address of this function. Sure
  // if the instruction before it calls just this function, and nothing nearer could be one as well.
  std::optional<std::uint64_t> SearchFrame(const Shape& shape) {
    const auto sp = registers_.Get(processor::kStackPointer);
    if (!sp) return std::nullopt;
    const std::uint64_t step = processor::kStackAlignment;
    std::optional<std::uint64_t> likely, unlikely;
    std::optional<std::uint64_t> sure;
    const std::uint64_t first = (*sp + step) & ~(step - 1);
    for (std::uint64_t frame = first; frame < first + kSearch && !sure; frame += step) {
      const auto word = stack_->Value<std::uint64_t>(frame + static_cast<std::uint64_t>(shape.return_offset));
      if (!word) break;
      const std::uint64_t plain = processor::PlainAddress(*word);
      if (!IsCode(plain)) continue;
      const auto call = processor::CallBefore(memory_, plain);
      if (!call) continue;
      if (call->target && Leads(*call->target, shape.function))
        sure = frame;
      else if (!call->target && !likely)
        likely = frame;
      else if (call->target && !unlikely)
        unlikely = frame;
    }
    guessed_ = !sure || likely;
    return sure ? sure : likely ? likely : unlikely;
  }

  Registers registers_;
  Reader* stack_;
  Memory* memory_;
  Modules* modules_;
  Stepper* stepper_;
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
