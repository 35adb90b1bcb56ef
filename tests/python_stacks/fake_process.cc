#include "tests/python_stacks/fake_process.h"

#include <algorithm>

namespace ncclwatch::stacks::python::testing {
namespace {

constexpr std::size_t kStruct = 1024;  // bytes: more than any of the layouts reaches into one

}  // namespace

FakeProcess::FakeProcess(int minor, bool free_threaded) : layout_(KnownLayout(minor, free_threaded).value()) {
  runtime_ = Allocate(kStruct);
  if (minor >= kFirstSayingMinor) SayOffsets();
}

bool FakeProcess::Read(std::uint64_t address, void* to, std::size_t bytes) {
  ++reads_;
  if (address < kBase || address - kBase > memory_.size() || bytes > memory_.size() - (address - kBase)) return false;
  if (bytes > 0) std::memcpy(to, &memory_[address - kBase], bytes);
  return true;
}

void FakeProcess::Forget() {
  ++forgets_;
  if (meanwhile) meanwhile(forgets_);
}

// Offsets of no version at all: that they are taken from the process has to show.
void FakeProcess::SayOffsets() {
  const Layout places = layout_;
  std::memcpy(&memory_[runtime_ - kBase], kDebugCookie, sizeof(std::uint64_t));
  Put(runtime_ + 8, std::uint64_t{3} << 24 | static_cast<std::uint64_t>(layout_.minor) << 16 | 0x01f0);
  Put(runtime_ + 16, std::uint64_t{layout_.free_threaded});
  for (int field = 0; field < kStrWideAfterAscii; ++field) {
    std::int32_t& at = layout_.at[static_cast<std::size_t>(field)];
    if (at == kAbsent) continue;
    at = field == kInterpreters ? 1016 : 16 + 8 * field;
    Put(At(runtime_, kInterpreters) - static_cast<std::uint64_t>(layout_[kInterpreters]) +
            static_cast<std::uint64_t>(places.at[static_cast<std::size_t>(field)]),
        static_cast<std::uint64_t>(at));
  }
  for (const Field field : {kGilHolder, kGilLocked, kGilEnabled})
    if (layout_.Has(field)) layout_.at[field] -= layout_[kGil];
  if (!layout_.free_threaded) {
    for (const Field field : {kGilEnabled, kFrameCodeCopy, kCodeCopies}) {
      if (places.Has(field)) Put(runtime_ + static_cast<std::uint64_t>(places[field]), std::uint64_t{0});
      layout_.at[field] = kAbsent;
    }
  }
}

std::uint64_t FakeProcess::Allocate(std::size_t bytes) {
  const std::uint64_t address = kBase + memory_.size();
  memory_.resize(memory_.size() + (bytes + 15) / 16 * 16);
  return address;
}

std::uint64_t FakeProcess::Type(const std::string& name) {
  const auto known = types_.find(name);
  if (known != types_.end()) return known->second;
  const std::uint64_t text = Allocate(name.size() + 1), type = Allocate(kStruct);
  std::memcpy(&memory_[text - kBase], name.data(), name.size());
  PutPointer(type, kTypeName, text);
  return types_[name] = type;
}

std::uint64_t FakeProcess::Object(const std::string& type, std::size_t bytes) {
  const std::uint64_t type_address = Type(type), object = Allocate(kStruct + bytes);
  PutPointer(object, kObjectType, type_address);
  return object;
}

std::uint64_t FakeProcess::Str(const std::u32string& text) {
  const char32_t largest = text.empty() ? 0 : *std::max_element(text.begin(), text.end());
  const std::uint32_t kind = largest < 0x100 ? 1 : largest < 0x10000 ? 2 : 4;
  const bool ascii = largest < 0x80;
  const std::uint64_t object = Object("str", text.size() * kind);
  PutPointer(object, kStrLength, text.size());
  PutInt(object, kStrState,
         static_cast<std::int32_t>(kind << layout_[kStrKindBit] | 1u << layout_[kStrCompactBit] |
                                   std::uint32_t{ascii} << layout_[kStrAsciiBit]));
  const std::uint64_t data =
      At(object, kStrAscii) + (ascii ? 0 : static_cast<std::uint64_t>(layout_[kStrWideAfterAscii]));
  for (std::size_t i = 0; i < text.size(); ++i) std::memcpy(&memory_[data - kBase + i * kind], &text[i], kind);
  return object;
}

std::uint64_t FakeProcess::Bytes(const std::string& bytes) {
  const std::uint64_t object = Object("bytes", bytes.size());
  PutPointer(object, kBytesLength, bytes.size());
  if (!bytes.empty()) std::memcpy(&memory_[At(object, kBytesData) - kBase], bytes.data(), bytes.size());
  return object;
}

std::uint64_t FakeProcess::Code(const std::u32string& name, const std::u32string& file, int first_line,
                                const std::string& lines) {
  const std::uint64_t name_object = Str(name), file_object = Str(file), lines_object = Bytes(lines);
  const std::uint64_t code = Object("code", 0);
  PutPointer(code, kCodeName, name_object);
  if (layout_.Has(kCodeQualifiedName)) PutPointer(code, kCodeQualifiedName, name_object);
  PutPointer(code, kCodeFile, file_object);
  PutPointer(code, kCodeLines, lines_object);
  PutInt(code, kCodeFirstLine, first_line);
  return code;
}

std::uint64_t FakeProcess::Frames(const std::vector<FakeFrame>& frames) {
  constexpr std::uint8_t kOfC = 3;
  std::uint64_t previous = 0;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    if (frame->entry && layout_.Has(kFrameOwner)) {
      const std::uint64_t shim = Allocate(kStruct);
      Put(At(shim, kFrameOwner), kOfC);
      PutPointer(shim, kFramePrevious, previous);
      previous = shim;
    }
    const std::uint64_t address = layout_.minor <= 10 ? Object("frame", 0) : Allocate(kStruct);
    PutPointer(address, kFramePrevious, previous);
    PutPointer(address, kFrameCode, frame->code | (layout_.minor >= 14 ? 1 : 0));  // a tagged pointer there
    if (layout_.Has(kFrameEntry)) Put(At(address, kFrameEntry), frame->entry);
    if (layout_.Has(kFrameCodeCopy)) PutInt(address, kFrameCodeCopy, frame->copy);
    if (layout_.minor <= 10)
      PutInt(address, kFrameInstruction, frame->instruction * (layout_.minor == 9 ? 2 : 1));
    else
      PutPointer(address, kFrameInstruction,
                 At(frame->code, kCodeInstructions) + static_cast<std::uint64_t>(frame->instruction) * 2);
    previous = address;
  }
  return previous;
}

std::uint64_t FakeProcess::Interpreter(std::int64_t id) {
  const std::uint64_t interpreter = Allocate(kStruct);
  Put(At(interpreter, kInterpreterId), id);
  if (last_interpreter_ == 0)
    PutPointer(runtime_, kInterpreters, interpreter);
  else
    PutPointer(last_interpreter_, kInterpreterNext, interpreter);
  if (layout_.Has(kInterpreterGil)) {
    const std::uint64_t gil = Allocate(kStruct);
    PutPointer(interpreter, kInterpreterGil, gil);
    if (layout_.Has(kGilEnabled)) PutInt(gil, kGilEnabled, 1);
  }
  return last_interpreter_ = interpreter;
}

std::uint64_t FakeProcess::Thread(std::uint64_t interpreter, std::uint64_t descriptor, std::uint64_t native,
                                  std::uint64_t frame) {
  const std::uint64_t thread = Allocate(kStruct);
  PutPointer(thread, kThreadInterpreter, interpreter);
  PutPointer(thread, kThreadId, descriptor);
  if (layout_.Has(kThreadNativeId)) PutPointer(thread, kThreadNativeId, native);
  if (layout_.Has(kCFrameFrame)) {
    const std::uint64_t c_frame = Allocate(kStruct);
    PutPointer(c_frame, kCFrameFrame, frame);
    frame = c_frame;
  }
  PutPointer(thread, kThreadFrame, frame);
  std::uint64_t& last = last_thread_[interpreter];
  if (last == 0)
    PutPointer(interpreter, kInterpreterThreads, thread);
  else
    PutPointer(last, kThreadNext, thread);
  return last = thread;
}

std::uint64_t FakeProcess::Descriptor(std::uint64_t tid_offset, std::int32_t tid) {
  const std::uint64_t descriptor = Allocate(4096);
  Put(descriptor + tid_offset, tid);
  return descriptor;
}

void FakeProcess::Hold(std::uint64_t interpreter, std::uint64_t thread) {
  std::uint64_t gil = runtime_ + static_cast<std::uint64_t>(layout_[kRuntimeGil]);
  if (layout_.Has(kInterpreterGil)) gil = *Value<std::uint64_t>(At(interpreter, kInterpreterGil));
  PutPointer(gil, kGilHolder, thread);
  PutInt(gil, kGilLocked, 1);
}

}  // namespace ncclwatch::stacks::python::testing
