#include "core/nodes/words_code.h"

#include <algorithm>

namespace ncclwatch::nodes {
namespace {

constexpr std::size_t kMostSaid = 1024;
constexpr std::size_t kMostModule = 4096;
constexpr std::uint64_t kMostOfAKind = 64;
constexpr std::uint64_t kMostFrames = 256;

void Write(const reader::FatalSignal& signal, Writer* to) {
  to->Signed(signal.at_ns).Number(signal.fault_address).Number(signal.stack_pointer).Signed(signal.signal);
  to->Signed(signal.code).Signed(signal.sender).Number(signal.thread).Number(signal.flags);
  to->Text(signal.thread_name, kMostSaid).Number(std::min<std::uint64_t>(signal.frames.size(), kMostFrames));
  for (std::size_t i = 0; i < std::min<std::size_t>(signal.frames.size(), kMostFrames); ++i)
    to->Number(signal.frames[i].address).Number(signal.frames[i].offset).Text(signal.frames[i].module, kMostModule);
}

void Read(Reader* from, reader::FatalSignal* signal) {
  signal->at_ns = from->Signed();
  signal->fault_address = from->Number();
  signal->stack_pointer = from->Number();
  signal->signal = from->Signed32();
  signal->code = from->Signed32();
  signal->sender = from->Signed32();
  signal->thread = from->NumberAs<std::uint32_t>();
  signal->flags = from->NumberAs<std::uint32_t>();
  signal->thread_name = from->Text(kMostSaid);
  for (std::uint64_t left = from->NumberUpTo(kMostFrames); left > 0 && from->ok(); --left) {
    from->Made(sizeof(reader::Frame));
    reader::Frame& frame = signal->frames.emplace_back();
    frame.address = from->Number();
    frame.offset = from->Number();
    frame.module = from->Text(kMostModule);
  }
}

void Write(const reader::Exception& exception, Writer* to) {
  to->Signed(exception.at_ns).Number(static_cast<std::uint64_t>(exception.language)).Number(exception.thread);
  to->Text(exception.type, kMostSaid).Text(exception.message, kMostSaid).Text(exception.place, kMostSaid);
}

void Read(Reader* from, reader::Exception* exception) {
  exception->at_ns = from->Signed();
  exception->language = static_cast<format::Language>(from->NumberUpTo(UINT8_MAX));
  exception->thread = from->NumberAs<std::uint32_t>();
  exception->type = from->Text(kMostSaid);
  exception->message = from->Text(kMostSaid);
  exception->place = from->Text(kMostSaid);
}

void Write(const reader::FailedAllocation& failed, Writer* to) {
  to->Signed(failed.at_ns).Signed(failed.recovered_ns).Number(failed.bytes).Number(failed.free_bytes);
  to->Number(failed.total_bytes).Number(failed.function).Signed(failed.result).Signed(failed.device);
  to->Number(failed.thread);
}

void Read(Reader* from, reader::FailedAllocation* failed) {
  failed->at_ns = from->Signed();
  failed->recovered_ns = from->Signed();
  failed->bytes = from->Number();
  failed->free_bytes = from->Number();
  failed->total_bytes = from->Number();
  failed->function = from->NumberAs<std::uint32_t>();
  failed->result = from->Signed32();
  failed->device = from->Signed32();
  failed->thread = from->NumberAs<std::uint32_t>();
}

void Write(const reader::NcclError& error, Writer* to) {
  to->Signed(error.at_ns).Number(error.slot).Number(static_cast<std::uint64_t>(error.function));
  to->Number(error.communicator).Number(error.generation).Signed(error.result).Number(error.thread);
  to->Byte(error.asynchronous ? 1 : 0).Text(error.text, kMostSaid);
}

void Read(Reader* from, reader::NcclError* error) {
  error->at_ns = from->Signed();
  error->slot = from->Number();
  error->function = static_cast<functions::Function>(from->NumberAs<std::uint32_t>());
  error->communicator = from->NumberAs<std::uint32_t>();
  error->generation = from->NumberAs<std::uint32_t>();
  error->result = from->Signed32();
  error->thread = from->NumberAs<std::uint32_t>();
  error->asynchronous = from->Byte() != 0;
  error->text = from->Text(kMostSaid);
}

void Write(const reader::Misuse& misuse, Writer* to) {
  to->Signed(misuse.at_ns).Number(misuse.site).Number(misuse.made_at).Signed(misuse.value).Signed(misuse.limit);
  to->Number(misuse.times).Number(static_cast<std::uint64_t>(misuse.wrong));
  to->Number(static_cast<std::uint64_t>(misuse.function)).Number(static_cast<std::uint64_t>(misuse.made_by));
  to->Number(misuse.communicator).Number(misuse.generation).Number(misuse.thread).Signed(misuse.result);
  to->Byte(misuse.tells_program ? 1 : 0).Text(misuse.site_name, kMostModule).Text(misuse.made_at_name, kMostModule);
}

void Read(Reader* from, reader::Misuse* misuse) {
  misuse->at_ns = from->Signed();
  misuse->site = from->Number();
  misuse->made_at = from->Number();
  misuse->value = from->Signed();
  misuse->limit = from->Signed();
  misuse->times = from->Number();
  misuse->wrong = static_cast<format::Wrong>(from->NumberAs<std::uint32_t>());
  misuse->function = static_cast<functions::Function>(from->NumberAs<std::uint32_t>());
  misuse->made_by = static_cast<functions::Function>(from->NumberAs<std::uint32_t>());
  misuse->communicator = from->NumberAs<std::uint32_t>();
  misuse->generation = from->NumberAs<std::uint32_t>();
  misuse->thread = from->NumberAs<std::uint32_t>();
  misuse->result = from->Signed32();
  misuse->tells_program = from->Byte() != 0;
  misuse->site_name = from->Text(kMostModule);
  misuse->made_at_name = from->Text(kMostModule);
}

template <typename T>
void WriteAll(const std::vector<T>& list, Writer* to) {
  const std::size_t count = std::min<std::size_t>(list.size(), kMostOfAKind);
  to->Number(count);
  for (std::size_t i = 0; i < count; ++i) Write(list[i], to);
}

template <typename T>
void ReadAll(Reader* from, std::vector<T>* list) {
  for (std::uint64_t left = from->NumberUpTo(kMostOfAKind); left > 0 && from->ok(); --left) {
    from->Made(sizeof(T));
    Read(from, &list->emplace_back());
  }
}

}  // namespace

void WriteLastWords(const reader::LastWords& words, Writer* to) {
  to->Byte(words.written ? 1 : 0);
  if (!words.written) return;
  to->Signed(words.exit_status).Signed(words.signal).Signed(words.at_ns).Text(words.text, kMostSaid);
}

reader::LastWords ReadLastWords(Reader* from) {
  reader::LastWords words;
  words.written = from->Byte() != 0;
  if (!words.written) return words;
  words.exit_status = from->Signed32();
  words.signal = from->Signed32();
  words.at_ns = from->Signed();
  words.text = from->Text(kMostSaid);
  return words;
}

void WriteWords(const reader::Words& words, Writer* to) {
  to->Byte(words.catching ? 1 : 0);
  WriteAll(words.signals, to);
  WriteAll(words.exceptions, to);
  WriteAll(words.allocations, to);
  WriteAll(words.errors, to);
  WriteAll(words.misuses, to);
  to->Number(words.misuses_lost);
  to->Signed(words.memory.at_ns).Number(words.memory.resident_bytes).Number(words.memory.available_bytes);
}

reader::Words ReadWords(Reader* from) {
  reader::Words words;
  words.catching = from->Byte() != 0;
  ReadAll(from, &words.signals);
  ReadAll(from, &words.exceptions);
  ReadAll(from, &words.allocations);
  ReadAll(from, &words.errors);
  ReadAll(from, &words.misuses);
  words.misuses_lost = from->Number();
  words.memory.at_ns = from->Signed();
  words.memory.resident_bytes = from->Number();
  words.memory.available_bytes = from->Number();
  return words;
}

}  // namespace ncclwatch::nodes
