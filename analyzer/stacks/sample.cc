#include "analyzer/stacks/sample.h"

#include <elf.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "analyzer/stacks/names/name_frames.h"

namespace ncclwatch::stacks {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kMachine = EM_X86_64;
#else
constexpr std::uint32_t kMachine = EM_AARCH64;
#endif

bool Inside(std::uint64_t offset, std::uint64_t bytes, std::size_t size) {
  return offset <= size && bytes <= size - offset;
}

std::string Text(const char* text, std::size_t size) { return std::string(text, ::strnlen(text, size)); }

// Empty, or why it cannot be read.
std::string CheckHeader(const format::SampleHeader& header, std::size_t size) {
  if (std::memcmp(header.magic, format::kSampleMagic, sizeof header.magic) != 0) return "not a sample";
  if (header.version > format::kSampleVersion) return "a sample of a newer version: use a newer ncclwatch";
  if (header.version == 0) return "damaged: sample of version 0";
  if (header.machine != kMachine) return "a sample of another processor";
  if (header.threads > format::kMostSampledThreads) return "damaged: too many threads";
  if (!Inside(sizeof header, header.threads * sizeof(format::SampledThread), size)) return "truncated";
  if (!Inside(header.maps_offset, header.maps_bytes, size)) return "damaged: its mappings lie outside of it";
  return {};
}

// The kernel maps the same image into every process.
const std::byte* OwnVdso() { return reinterpret_cast<const std::byte*>(::getauxval(AT_SYSINFO_EHDR)); }

}  // namespace

bool SampledProcess::ModuleMemory::Read(std::uint64_t address, void* to, std::size_t bytes) {
  if (!process_->modules_) return false;
  const Mapping* const mapping = process_->modules_->maps().At(address);
  if (!mapping || bytes > mapping->end - address) return false;
  if (mapping->path == "[vdso]") {
    static const Maps own = Maps::Of(getpid());
    const Mapping* const here = own.At(reinterpret_cast<std::uint64_t>(OwnVdso()));
    if (!here || here->end - here->begin != mapping->end - mapping->begin) return false;
    std::memcpy(to, OwnVdso() + (address - mapping->begin), bytes);
    return true;
  }
  const Module* const module = process_->modules_->At(address);
  return module && module->file && module->file->Read(address - module->bias, to, bytes);
}

std::unique_ptr<SampledProcess> SampledProcess::Parse(std::vector<std::byte> bytes, std::string* reason) {
  std::unique_ptr<SampledProcess> process(new SampledProcess);
  process->bytes_ = std::move(bytes);
  const std::size_t size = process->bytes_.size();
  const std::byte* const data = process->bytes_.data();
  format::SampleHeader& header = process->header_;
  if (size < sizeof header) {
    *reason = "truncated";
    return nullptr;
  }
  std::memcpy(&header, data, sizeof header);
  *reason = CheckHeader(header, size);
  if (!reason->empty()) return nullptr;
  process->threads_.resize(header.threads);
  if (header.threads > 0)
    std::memcpy(process->threads_.data(), data + sizeof header, header.threads * sizeof(format::SampledThread));
  // A stack that is not there whole is none.
  for (format::SampledThread& thread : process->threads_)
    if (!Inside(thread.stack_offset, thread.stack_bytes, size) ||
        thread.stack_address > UINT64_MAX - thread.stack_bytes)
      thread.stack_offset = thread.stack_bytes = 0;
  const std::string_view maps(reinterpret_cast<const char*>(data) + header.maps_offset, header.maps_bytes);
  process->modules_ = std::make_unique<Modules>(&process->memory_, nullptr, Maps(maps), header.at_real_ns);
  return process;
}

Walk SampledProcess::Unwind(const format::SampledThread& thread) {
  if (thread.state == static_cast<std::uint32_t>(format::Sampled::kRuns)) return {};
  Registers registers;
  registers.pc = thread.pc;
  for (unsigned number = 0; number < std::min(kRegisters, format::kSampleRegisters); ++number)
    if (thread.known >> number & 1) registers.Set(number, thread.registers[number]);
  CopiedStretch stack(thread.stack_address, {bytes_.data() + thread.stack_offset, thread.stack_bytes}, &memory_);
  return stacks::Unwind(registers, &stack, &memory_, modules_.get());
}

ProcessStacks ReadSample(SampledProcess* process) {
  const format::SampleHeader& header = process->header();
  ProcessStacks stacks;
  stacks.pid = static_cast<int>(header.pid);
  stacks.start_time = header.start_time;
  stacks.rank = header.rank;
  stacks.host = Text(header.host, sizeof header.host);
  stacks.at_ns = header.at_ns;
  stacks.matters = static_cast<int>(header.matters);
  stacks.state.push_back("read from inside, since nobody may look at it from outside");
  std::vector<Walk> walks;
  for (const format::SampledThread& sampled : process->threads()) {
    Thread thread;
    thread.tid = static_cast<int>(sampled.thread);
    thread.name = Text(sampled.name, sizeof sampled.name);
    const auto state = static_cast<format::Sampled>(sampled.state);
    thread.state = state == format::Sampled::kRuns ? 'R' : 'S';
    if (state == format::Sampled::kRuns) thread.trouble = "it was running and was not interrupted";
    if (state == format::Sampled::kMoved) thread.trouble = "it moved on while it was read";
    thread.how = state == format::Sampled::kRuns ? How::kNotRead : How::kPartly;
    Walk walk = process->Unwind(sampled);
    if (state == format::Sampled::kMoved && walk.frames.size() > 1) walk.frames.resize(1);
    thread.cut = walk.ending == Ending::kCut;
    walks.push_back(std::move(walk));
    stacks.threads.push_back(std::move(thread));
  }
  NameCache names;
  std::vector<std::vector<Frame>> frames = NameFrames(walks, process->modules(), &names);
  for (std::size_t i = 0; i < frames.size(); ++i) stacks.threads[i].frames = std::move(frames[i]);
  std::stable_partition(stacks.threads.begin(), stacks.threads.end(),
                        [&](const Thread& thread) { return thread.tid == stacks.matters; });
  return stacks;
}

}  // namespace ncclwatch::stacks
