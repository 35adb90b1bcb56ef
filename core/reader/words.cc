#include "core/reader/words.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/reader/layout.h"
#include "core/reader/load.h"

namespace ncclwatch::reader {
namespace {

std::string StringAt(const Layout& layout, std::uint32_t offset) {
  if (offset == 0 || offset >= layout.string_bytes) return {};
  return std::string(layout.strings + offset, ::strnlen(layout.strings + offset, layout.string_bytes - offset));
}

// Each reference of a mangled name may double its text: a name with many is hostile, or nobody wants to read it.
bool MayBeDemangled(const std::string& name) {
  constexpr int kMostReferences = 10;
  int references = 0;
  for (std::size_t i = 0; i + 1 < name.size(); ++i)
    if ((name[i] == 'S' || name[i] == 'T') && (name[i + 1] == '_' || (name[i + 1] >= '0' && name[i + 1] <= '9') ||
                                               (name[i + 1] >= 'A' && name[i + 1] <= 'Z')))
      ++references;
  return !name.empty() && references <= kMostReferences;
}

std::string Demangled(const std::string& name) {
  if (!MayBeDemangled(name)) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text ? std::string(text.get()) : name;
}

FatalSignal Copy(const Layout& layout, const format::FatalSignal& from) {
  FatalSignal to;
  to.at_ns = Load(from.at_ns);
  to.fault_address = Load(from.fault_address);
  to.stack_pointer = Load(from.stack_pointer);
  to.signal = Load(from.signal);
  to.code = Load(from.code);
  to.sender = Load(from.sender);
  to.thread = Load(from.thread);
  to.flags = Load(from.flags);
  to.thread_name = Text(from.thread_name);
  const std::uint32_t frames = std::min(Load(from.frames), format::kFrames);
  for (std::uint32_t i = 0; i < frames; ++i)
    to.frames.push_back(
        {Load(from.frame[i].address), Load(from.frame[i].offset), StringAt(layout, Load(from.frame[i].module))});
  return to;
}

Exception Copy(const Layout&, const format::Exception& from) {
  Exception to;
  to.at_ns = Load(from.at_ns);
  to.language = Load(from.language) == static_cast<std::uint32_t>(format::Language::kPython) ? format::Language::kPython
                                                                                             : format::Language::kCpp;
  to.thread = Load(from.thread);
  to.type = to.language == format::Language::kCpp ? Demangled(Text(from.type)) : Text(from.type);
  to.message = Text(from.message);
  to.place = Text(from.place);
  return to;
}

FailedAllocation Copy(const Layout&, const format::FailedAllocation& from) {
  FailedAllocation to;
  to.at_ns = Load(from.at_ns);
  to.recovered_ns = Load(from.recovered_ns);
  to.bytes = Load(from.bytes);
  to.free_bytes = Load(from.free_bytes);
  to.total_bytes = Load(from.total_bytes);
  to.function = Load(from.function);
  to.result = Load(from.result);
  to.device = Load(from.device);
  to.thread = Load(from.thread);
  return to;
}

NcclError Copy(const Layout&, const format::NcclError& from) {
  NcclError to;
  to.at_ns = Load(from.at_ns);
  to.slot = Load(from.slot);
  to.function = static_cast<functions::Function>(Load(from.function));
  to.communicator = Load(from.communicator);
  to.generation = Load(from.generation);
  to.result = Load(from.result);
  to.thread = Load(from.thread);
  to.asynchronous = (Load(from.flags) & format::kErrorAsynchronous) != 0;
  to.text = Text(from.text);
  return to;
}

Misuse Copy(const Layout& layout, const format::Misuse& from) {
  Misuse to;
  to.at_ns = Load(from.at_ns);
  to.site = Load(from.site);
  to.made_at = Load(from.made_at);
  to.value = Load(from.value);
  to.limit = Load(from.limit);
  to.times = Load(from.times);
  to.wrong = static_cast<format::Wrong>(Load(from.wrong));
  to.function = static_cast<functions::Function>(Load(from.function));
  to.made_by = static_cast<functions::Function>(Load(from.made_by));
  to.communicator = Load(from.communicator);
  to.generation = Load(from.generation);
  to.thread = Load(from.thread);
  to.result = Load(from.result);
  to.tells_program = Load(from.tells_program) != 0;
  to.site_name = StringAt(layout, Load(from.site_name));
  to.made_at_name = StringAt(layout, Load(from.made_at_name));
  return to;
}

template <class To, class From, std::size_t kSize, class SlotOf>
void CopyWhole(const Layout& layout, const From (&from)[kSize], SlotOf slot_of, std::vector<To>* to) {
  for (std::size_t slot = 0; slot < kSize; ++slot) {
    const std::uint64_t commit = Load(from[slot].commit);
    if (commit == 0 || slot_of(commit - 1) != slot) continue;
    To copy = Copy(layout, from[slot]);
    if (Load(from[slot].commit) == commit) to->push_back(std::move(copy));
  }
  std::stable_sort(to->begin(), to->end(), [](const To& a, const To& b) { return a.at_ns < b.at_ns; });
}

template <class T>
void DropLater(std::int64_t now_ns, std::vector<T>* entries) {
  std::erase_if(*entries, [now_ns](const T& entry) { return entry.at_ns > now_ns; });
}

}  // namespace

std::string FrameText(const Frame& frame) {
  char number[24];
  if (frame.module.empty()) {
    std::snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(frame.address));
    return number;
  }
  std::snprintf(number, sizeof number, "+0x%llx", static_cast<unsigned long long>(frame.offset));
  return frame.module.substr(frame.module.rfind('/') + 1) + number;
}

Words CopyWords(const Layout& layout) {
  Words words;
  if (!layout.words) return words;
  const format::Words& from = *layout.words;
  const auto round = [](std::uint32_t size) { return [size](std::uint64_t number) { return number % size; }; };
  words.catching = Load(from.catching) != 0;
  CopyWhole(layout, from.signals, round(format::kFatalSignals), &words.signals);
  CopyWhole(layout, from.exceptions, round(format::kExceptions), &words.exceptions);
  CopyWhole(layout, from.allocations, round(format::kFailedAllocations), &words.allocations);
  CopyWhole(layout, from.errors, format::NcclErrorSlot, &words.errors);
  if (layout.has_misuses) {
    CopyWhole(layout, from.misuses, round(format::kMisuses), &words.misuses);
    std::erase_if(words.misuses, [](const Misuse& misuse) { return format::Find(misuse.wrong) == nullptr; });
    const std::uint64_t seen = Load(from.misuses_seen);
    words.misuses_lost = seen > format::kMisuses ? seen - format::kMisuses : 0;
  }
  words.memory.at_ns = Load(from.memory_at_ns);
  words.memory.resident_bytes = Load(from.resident_bytes);
  words.memory.available_bytes = Load(from.available_bytes);
  return words;
}

std::int64_t LastSaid(const Words& words) {
  std::int64_t last = 0;
  for (const FatalSignal& signal : words.signals) last = std::max(last, signal.at_ns);
  for (const Exception& exception : words.exceptions) last = std::max(last, exception.at_ns);
  for (const FailedAllocation& failed : words.allocations) last = std::max({last, failed.at_ns, failed.recovered_ns});
  for (const NcclError& error : words.errors) last = std::max(last, error.at_ns);
  for (const Misuse& misuse : words.misuses) last = std::max(last, misuse.at_ns);
  return last;
}

void RollBack(std::int64_t now_ns, Words* words) {
  DropLater(now_ns, &words->signals);
  DropLater(now_ns, &words->exceptions);
  DropLater(now_ns, &words->allocations);
  DropLater(now_ns, &words->errors);
  DropLater(now_ns, &words->misuses);
  for (FailedAllocation& failed : words->allocations)
    if (failed.recovered_ns > now_ns) failed.recovered_ns = 0;
  if (words->memory.at_ns > now_ns) words->memory = {};
}

}  // namespace ncclwatch::reader
