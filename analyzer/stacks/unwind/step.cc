#include "analyzer/stacks/unwind/step.h"

#include <libunwind.h>

#include <algorithm>
#include <new>
#include <vector>

#include "analyzer/stacks/unwind/check.h"
#include "analyzer/stacks/unwind/processor.h"

// Part of the library, and declared by each of its users: perf does so too.
extern "C" int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t space, unw_word_t ip, unw_dyn_info_t* table,
                                                  unw_proc_info_t* found, int need_unwind_info, void* argument);

// Of unw_resume, which the library brings along and nothing here calls. It lies in libunwind.a, which stays out.
extern "C" int UNW_ARCH_OBJ(setcontext)(const ucontext_t*);
extern "C" int UNW_ARCH_OBJ(setcontext)(const ucontext_t*) { return -UNW_EINVAL; }

namespace ncclwatch::stacks {
namespace {

constexpr std::size_t kMostProgram = 1u << 20;  // bytes; a damaged length is larger
constexpr unw_word_t kElsewhere = 1u << 24;     // of memory that is made up: no word of it leads to the word itself
constexpr unw_word_t kNowhere = 1;              // words lie at multiples of 8
constexpr int kMostAccesses = 1 << 20;          // of one step; a damaged number has no end

// The head of libunwind's struct dwarf_cie_info (include/dwarf.h), the same from 1.2 to 1.8: where the two programs of
// a function lie. It has no other way to tell.
struct Description {
  unw_word_t common_begin, common_end, own_begin, own_end;
  unw_word_t code_factor, data_factor, return_column;
};

// What libunwind's questions are answered from, during one step.
struct Answers {
  const Place& place;
  unw_word_t pc;
  unsigned assumed = kRegisters;  // of this register the value is made up, and so is all memory of the stack
  unw_word_t value = 0;

  bool no_table = false;
  unsigned missing = kRegisters;
  std::optional<unw_word_t> unreadable;
  std::optional<unw_word_t> first_read;  // of the stack
  int accesses = 0;
  std::vector<unw_word_t> negations;        // addresses of instructions that are hidden from libunwind
  unw_word_t word_at = kNowhere, word = 0;  // of the file, the last: libunwind reads byte by byte

  explicit Answers(const Place& from) : place(from), pc(from.exact ? from.registers.pc : from.registers.pc - 1) {}
  const Module* ModuleAt(unw_word_t address) const {
    const Module* const module = place.module;
    return module && module->file && address >= module->begin && address < module->end ? module : nullptr;
  }
  bool ReadFile(const Module& module, unw_word_t address, unw_word_t* value_read) {
    if (address != word_at) {
      word_at = kNowhere;
      if (!module.file->Read(address - module.bias, &word, sizeof(word))) return false;
      word_at = address;
    }
    *value_read = word;
    for (const unw_word_t hidden : negations)
      if (hidden - address < sizeof(word)) *value_read &= ~(unw_word_t{0xff} << (hidden - address) * 8);
    return true;
  }
};

Answers& Of(void* argument) { return *static_cast<Answers*>(argument); }

// Whether libunwind can run the program there, and what of it must be hidden.
std::optional<Looked> LookAt(const Module& module, unw_word_t begin, unw_word_t end, Answers* answers) {
  if (begin > end || end - begin > kMostProgram) return std::nullopt;
  std::vector<std::uint8_t> program(end - begin);
  if (!module.file->Read(begin - module.bias, program.data(), program.size())) return std::nullopt;
  auto looked = LookThrough(program);
  if (looked)
    for (const std::uint64_t offset : looked->negations) answers->negations.push_back(begin + offset);
  return looked;
}

bool IsUsable(const Module& module, const unw_proc_info_t& found, Answers* answers) {
  if (!found.unwind_info || found.unwind_info_size < static_cast<int>(sizeof(Description))) return false;
  const auto& description = *static_cast<const Description*>(found.unwind_info);
  if (description.return_column != processor::kReturnColumn) return false;
  const auto common = LookAt(module, description.common_begin, description.common_end, answers);
  const auto own = LookAt(module, description.own_begin, description.own_end, answers);
  return common && own && (common->defines_frame || own->defines_frame);
}

// Any answer of it but "no more information" makes libunwind's x86-64 give up; that one makes it guess by the frame
// pointer, and not say so. On aarch64 only this one keeps it from guessing.
constexpr int kNothingKnown = -UNW_ESTOPUNWIND;

int FindTable(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t* found, int, void* argument) {
  Answers& answers = Of(argument);
  answers.no_table = true;
  const Module* const module = answers.ModuleAt(ip);
  const auto table = module ? module->file->FindUnwindTable() : std::nullopt;
  if (!table || table->count == 0) return kNothingKnown;
  unw_dyn_info_t info{};
  info.format = UNW_INFO_FORMAT_REMOTE_TABLE;
  info.start_ip = module->begin;
  info.end_ip = module->end;
  info.u.rti.segbase = table->header + module->bias;
  info.u.rti.table_data = table->rows + module->bias;
  info.u.rti.table_len = table->count * 8 / sizeof(unw_word_t);
  if (UNW_OBJ(dwarf_search_unwind_table)(space, ip, &info, found, 1, argument) != 0) return kNothingKnown;
  if (!IsUsable(*module, *found, &answers)) return kNothingKnown;
  answers.no_table = false;
  return 0;
}

int ReadMemory(unw_addr_space_t, unw_word_t address, unw_word_t* value, int write, void* argument) {
  Answers& answers = Of(argument);
  if (write != 0 || ++answers.accesses > kMostAccesses) return -UNW_EINVAL;
  const Module* const module = answers.ModuleAt(address);
  if (module && module->file->IsConstant(address - module->bias))
    return answers.ReadFile(*module, address, value) ? 0 : -UNW_EINVAL;
  if (!module && !answers.first_read) answers.first_read = address;
  if (answers.assumed != kRegisters) {
    *value = answers.value + kElsewhere;
    return 0;
  }
  if (answers.place.stack->Read(address, value, sizeof(*value))) return 0;
  // Data of the module that nobody can read any more: a pointer of the tables may lead there and not matter.
  if (module && answers.ReadFile(*module, address, value)) return 0;
  if (!answers.unreadable) answers.unreadable = address;
  return -UNW_EINVAL;
}

int ReadRegister(unw_addr_space_t, unw_regnum_t number, unw_word_t* value, int write, void* argument) {
  Answers& answers = Of(argument);
  if (write != 0) return -UNW_EREADONLYREG;
  const auto wanted = static_cast<unsigned>(number);  // libunwind's numbers are DWARF's
  if (wanted == processor::kProgramCounter) {
    *value = answers.pc;
    return 0;
  }
  const auto known = wanted == answers.assumed ? answers.value : answers.place.registers.Get(wanted);
  if (!known) {
    if (answers.missing == kRegisters) answers.missing = std::min(wanted, kRegisters);
    return -UNW_EBADREG;
  }
  *value = *known;
  return 0;
}

unw_accessors_t Accessors() {
  unw_accessors_t all{};
  all.find_proc_info = FindTable;
  all.put_unwind_info = [](unw_addr_space_t, unw_proc_info_t*, void*) {};
  all.get_dyn_info_list_addr = [](unw_addr_space_t, unw_word_t*, void*) -> int { return -UNW_ENOINFO; };
  all.access_mem = ReadMemory;
  all.access_reg = ReadRegister;
  all.access_fpreg = [](unw_addr_space_t, unw_regnum_t, unw_fpreg_t*, int, void*) -> int { return -UNW_EBADREG; };
  all.resume = [](unw_addr_space_t, unw_cursor_t*, void*) -> int { return -UNW_EINVAL; };
  all.get_proc_name = [](unw_addr_space_t, unw_word_t, char*, std::size_t, unw_word_t*, void*) -> int {
    return -UNW_ENOINFO;
  };
  return all;
}

// Where the caller's value of a register is; its type is UNW_SLT_NONE where tables say that it is lost.
unw_save_loc_t SavedAt(unw_cursor_t* cursor, unsigned number) {
  unw_save_loc_t where{};
  unw_get_save_loc(cursor, static_cast<int>(number), &where);
  return where;
}

std::optional<unw_word_t> ValueOf(unw_cursor_t* cursor, unsigned number, Reader* stack) {
  unw_word_t value = 0;
  if (number != processor::kReturnColumn) {
    if (unw_get_reg(cursor, static_cast<int>(number), &value) != 0) return std::nullopt;
    return value;
  }
  // This one it mixes up with the program counter.
  const unw_save_loc_t where = SavedAt(cursor, number);
  return where.type == UNW_SLT_MEMORY ? stack->Value<unw_word_t>(where.u.addr) : std::nullopt;
}

// Without a usable table libunwind's aarch64 takes the link register for the return address, and marks it lost.
bool IsGuess(unw_cursor_t* cursor) {
  return processor::kLink != kRegisters && SavedAt(cursor, processor::kLink).type == UNW_SLT_NONE;
}

}  // namespace

Stepper::Stepper() {
  unw_accessors_t accessors = Accessors();
  space_ = unw_create_addr_space(&accessors, 0);
  if (!space_) throw std::bad_alloc();
  unw_set_caching_policy(space_, UNW_CACHE_GLOBAL);  // of this space; no thread but its own uses it
}

Stepper::~Stepper() { unw_destroy_addr_space(space_); }

// A new cursor each time: what a callee did not save is then unknown rather than what it was further in, and the
// return address is one without a signature.
Step Stepper::ToCaller(const Place& place) {
  Step step;
  Answers answers(place);
  unw_cursor_t cursor{};
  int result = unw_init_remote(&cursor, space_, &answers);
  // Of the frame that is left: aarch64's knows before, x86-64's afterwards.
  if (result == 0 && processor::kLink != kRegisters) step.signal_frame = unw_is_signal_frame(&cursor) > 0;
  if (result == 0) result = unw_step(&cursor);
  if (result >= 0 && processor::kLink == kRegisters) step.signal_frame = unw_is_signal_frame(&cursor) > 0;
  unw_word_t pc = 0;
  if (result >= 0) unw_get_reg(&cursor, UNW_REG_IP, &pc);
  if (result < 0 || (pc != 0 && IsGuess(&cursor))) {
    if (answers.no_table)
      step.result = Step::Result::kNoTable;
    else if (answers.missing != kRegisters)
      step.result = Step::Result::kUnknown;
    else if (answers.unreadable)
      step.result = Step::Result::kUnreadable;
    step.missing = answers.missing;
    return step;
  }
  // It ends where the frame pointer is 0 or lost, which says nothing of code that uses it for something else.
  if (pc == 0) pc = ValueOf(&cursor, processor::kReturnColumn, place.stack).value_or(0);
  step.caller.pc = processor::PlainAddress(pc);
  step.result = step.caller.pc == 0 ? Step::Result::kOutermost : Step::Result::kCaller;
  const auto keep = [&](unsigned number) {
    if (const auto value = ValueOf(&cursor, number, place.stack)) step.caller.Set(number, *value);
  };
  if (step.signal_frame) {
    for (unsigned number = 0; number < processor::kProgramCounter; ++number) keep(number);
  } else {
    for (const unsigned number : processor::Preserved()) keep(number);
    keep(processor::kStackPointer);
  }
  return step;
}

std::optional<Shape> Stepper::ShapeAt(const Place& place, unsigned missing) {
  Answers answers(place);
  answers.assumed = missing;
  answers.value = place.registers.Get(processor::kStackPointer).value_or(0);
  unw_cursor_t cursor{};
  unw_proc_info_t function{};
  unw_word_t frame = 0;
  if (unw_init_remote(&cursor, space_, &answers) != 0 || unw_get_proc_info(&cursor, &function) != 0 ||
      unw_step(&cursor) < 0 || answers.missing != kRegisters ||
      unw_get_reg(&cursor, static_cast<int>(processor::kStackPointer), &frame) != 0)
    return std::nullopt;
  const unw_save_loc_t where = SavedAt(&cursor, processor::kReturnColumn);
  if (where.type != UNW_SLT_MEMORY) return std::nullopt;
  Shape shape;
  shape.function = function.start_ip;
  shape.return_offset = static_cast<std::int64_t>(where.u.addr - frame);
  // An expression reads memory before the return address is read.
  if (answers.first_read == where.u.addr) shape.frame_offset = static_cast<std::int64_t>(frame - answers.value);
  return shape;
}

}  // namespace ncclwatch::stacks
