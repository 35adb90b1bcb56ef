#include "analyzer/import/pickle.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "analyzer/import/opcodes.h"

namespace ncclwatch::analyzer::import {
namespace {

static_assert(std::endian::native == std::endian::little, "a pickle's integers are copied as they are");

constexpr ValueId kUnset = UINT32_MAX;  // of the memo
constexpr std::size_t kReserved = 1024;

// What is left of the pickle. A local variable of the loop, all of it inlined: the place where the next opcode stands
// is what every step waits for, and a register is nearer than memory.
struct Input {
  const char* next;
  const char* end;
  bool cut = false;  // more was asked for than there is

  std::size_t left() const { return static_cast<std::size_t>(end - next); }

  template <typename T>
  [[gnu::always_inline]] T Fixed() {
    T value{};
    if (left() < sizeof value) {
      cut = true;
      return value;
    }
    std::memcpy(&value, next, sizeof value);
    next += sizeof value;
    return value;
  }

  [[gnu::always_inline]] std::string_view Take(std::uint64_t count) {
    if (count > left()) {
      cut = true;
      return {};
    }
    next += count;
    return {next - count, count};
  }
};

class Machine {
 public:
  Machine(std::string_view bytes, Tree* tree) : bytes_(bytes), tree_(tree) {
    stack_.reserve(kReserved);
    memo_.reserve(kReserved);
  }

  absl::StatusOr<ValueId> Run() {
    Input in{bytes_.data(), bytes_.data() + bytes_.size()};
    const char* opcode = in.next;
    while (!done_ && !in.cut) {
      opcode = in.next;
      Step(&in);
    }
    if (in.cut) reason_ = "the pickle is cut short";
    if (!reason_.empty()) return absl::DataLossError(fmt::format("{} at byte {}", reason_, opcode - bytes_.data()));
    return stack_.back();
  }

 private:
  void Fail(std::string reason) {
    if (reason_.empty()) reason_ = std::move(reason);
    done_ = true;
  }

  void Push(ValueId value) { stack_.push_back(value); }

  // Values that belong to what was begun before the last mark are out of reach.
  std::size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }

  ValueId Pop() {
    if (stack_.size() <= Floor()) {
      Fail("the pickle takes a value that is not there");
      return Tree::kNone;
    }
    const ValueId value = stack_.back();
    stack_.pop_back();
    return value;
  }

  std::size_t PopMark() {
    if (marks_.empty()) {
      Fail("the pickle ends what it has not begun");
      return stack_.size();
    }
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }

  // What lies above `mark` goes into the container.
  void Fill(ValueId container, std::size_t mark) {
    if (tree_->Is(container, ValueKind::kDictionary) && (stack_.size() - mark) % 2 != 0)
      return Fail("the pickle has a key without a value");
    tree_->Append(container, stack_.data() + mark, stack_.size() - mark);
    stack_.resize(mark);
  }

  void Extend(std::size_t mark, ValueKind kind) {
    if (done_) return;
    if (mark == Floor() || !tree_->Is(stack_[mark - 1], kind))
      return Fail("the pickle adds items to what does not take them");
    Fill(stack_[mark - 1], mark);
  }

  void ExtendByLast(std::size_t count, ValueKind kind) {
    if (stack_.size() < Floor() + count) return Fail("the pickle takes a value that is not there");
    Extend(stack_.size() - count, kind);
  }

  void Collect(ValueId container, std::size_t mark) {
    if (done_) return;
    Fill(container, mark);
    Push(container);
  }

  void Tuple(std::size_t count) {
    if (stack_.size() < Floor() + count) return Fail("the pickle takes a value that is not there");
    Collect(tree_->List(), stack_.size() - count);
  }

  // Two's complement, little endian.
  void Long(std::string_view digits) {
    if (digits.size() > sizeof(std::int64_t)) return Push(tree_->TooLarge());
    if (digits.size() == sizeof(std::int64_t)) {  // as torch writes all that are not small
      std::int64_t whole = 0;
      std::memcpy(&whole, digits.data(), sizeof whole);
      return Push(tree_->Integer(whole));
    }
    if (digits.empty()) return Push(tree_->Integer(0));
    std::uint64_t value = (digits.back() & 0x80) != 0 ? UINT64_MAX : 0;
    std::memcpy(&value, digits.data(), digits.size());
    Push(tree_->Integer(static_cast<std::int64_t>(value)));
  }

  void Text(std::string_view text) { Push(tree_->String(text)); }

  void Real(std::uint64_t swapped) {  // big endian, alone among the arguments
    Push(tree_->Real(std::bit_cast<double>(__builtin_bswap64(swapped))));
  }

  // Numbers of the memo are handed out one after the other: a larger one is damage, and must not size an allocation.
  void Remember(std::uint64_t number) {
    if (stack_.size() <= Floor()) return Fail("the pickle takes a value that is not there");
    if (number > bytes_.size()) return Fail("the pickle numbers its values beyond their count");
    if (number >= memo_.size()) memo_.resize(std::max<std::size_t>(number + 1, 2 * memo_.size()), kUnset);
    memo_[number] = stack_.back();
    ++remembered_;
  }

  void Recall(std::uint64_t number) {
    if (number >= memo_.size() || memo_[number] == kUnset)
      return Fail("the pickle refers to a value that it does not hold");
    Push(memo_[number]);
  }

  void Stop() {
    if (stack_.size() != 1 || !marks_.empty()) return Fail("the pickle ends with something unfinished");
    done_ = true;
  }

  [[gnu::always_inline]] void Step(Input* in) {
    const auto opcode = in->Fixed<std::uint8_t>();
    if (in->cut) return;
    switch (static_cast<Opcode>(opcode)) {
      case Opcode::kProto: CheckProtocol(in->Fixed<std::uint8_t>()); break;
      case Opcode::kFrame: in->Fixed<std::uint64_t>(); break;
      case Opcode::kStop: Stop(); break;
      case Opcode::kMark: marks_.push_back(stack_.size()); break;
      case Opcode::kNone: Push(Tree::kNone); break;
      case Opcode::kNewTrue: Push(Tree::kTrue); break;
      case Opcode::kNewFalse: Push(Tree::kFalse); break;
      case Opcode::kBinInt: Push(tree_->Integer(in->Fixed<std::int32_t>())); break;
      case Opcode::kBinInt1: Push(tree_->Integer(in->Fixed<std::uint8_t>())); break;
      case Opcode::kBinInt2: Push(tree_->Integer(in->Fixed<std::uint16_t>())); break;
      case Opcode::kLong1: Long(in->Take(in->Fixed<std::uint8_t>())); break;
      case Opcode::kLong4: Long(in->Take(in->Fixed<std::uint32_t>())); break;
      case Opcode::kBinFloat: Real(in->Fixed<std::uint64_t>()); break;
      case Opcode::kShortBinUnicode:
      case Opcode::kShortBinBytes:
      case Opcode::kShortBinString: Text(in->Take(in->Fixed<std::uint8_t>())); break;
      case Opcode::kBinUnicode:
      case Opcode::kBinBytes:
      case Opcode::kBinString: Text(in->Take(in->Fixed<std::uint32_t>())); break;
      case Opcode::kBinUnicode8:
      case Opcode::kBinBytes8:
      case Opcode::kByteArray8: Text(in->Take(in->Fixed<std::uint64_t>())); break;
      case Opcode::kEmptyDict: Push(tree_->Dictionary()); break;
      case Opcode::kEmptyList:
      case Opcode::kEmptyTuple: Push(tree_->List()); break;
      case Opcode::kDict: Collect(tree_->Dictionary(), PopMark()); break;
      case Opcode::kList:
      case Opcode::kTuple: Collect(tree_->List(), PopMark()); break;
      case Opcode::kTuple1: Tuple(1); break;
      case Opcode::kTuple2: Tuple(2); break;
      case Opcode::kTuple3: Tuple(3); break;
      case Opcode::kAppend: ExtendByLast(1, ValueKind::kList); break;
      case Opcode::kAppends: Extend(PopMark(), ValueKind::kList); break;
      case Opcode::kSetItem: ExtendByLast(2, ValueKind::kDictionary); break;
      case Opcode::kSetItems: Extend(PopMark(), ValueKind::kDictionary); break;
      case Opcode::kBinPut: Remember(in->Fixed<std::uint8_t>()); break;
      case Opcode::kLongBinPut: Remember(in->Fixed<std::uint32_t>()); break;
      case Opcode::kMemoize: Remember(remembered_); break;
      case Opcode::kBinGet: Recall(in->Fixed<std::uint8_t>()); break;
      case Opcode::kLongBinGet: Recall(in->Fixed<std::uint32_t>()); break;
      case Opcode::kPop: Pop(); break;
      case Opcode::kPopMark: stack_.resize(PopMark()); break;
      default: Fail(RefusalText(opcode)); break;
    }
  }

  void CheckProtocol(std::uint8_t protocol) {
    if (protocol < 2 || protocol > 5) Fail(fmt::format("protocol {} of pickle is not known here", protocol));
  }

  std::string_view bytes_;
  Tree* tree_;
  std::vector<ValueId> stack_;
  std::vector<std::size_t> marks_;
  std::vector<ValueId> memo_;
  std::uint64_t remembered_ = 0;
  bool done_ = false;
  std::string reason_;
};

}  // namespace

bool LooksLikePickle(std::string_view bytes) {
  return bytes.size() >= 2 && static_cast<std::uint8_t>(bytes[0]) == static_cast<std::uint8_t>(Opcode::kProto) &&
         bytes[1] >= 2 && bytes[1] <= 5;
}

absl::StatusOr<ValueId> ParsePickle(std::string_view bytes, Tree* tree) { return Machine(bytes, tree).Run(); }

}  // namespace ncclwatch::analyzer::import
