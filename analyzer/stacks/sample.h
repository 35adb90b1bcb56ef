// A process that left a sample of itself (ncclwatch/format/sample.h): its threads are unwound from the copies of their
// stacks, and through the files of its modules as they are now. Nothing in a sample is trusted. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/base/modules.h"
#include "analyzer/stacks/base/stack.h"
#include "analyzer/stacks/unwind/unwind.h"
#include "ncclwatch/format/sample.h"

namespace ncclwatch::stacks {

class SampledProcess {
 public:
  // Null, and why in *reason, if the bytes are no sample that this program can read.
  static std::unique_ptr<SampledProcess> Parse(std::vector<std::byte> bytes, std::string* reason);

  const format::SampleHeader& header() const { return header_; }
  const std::vector<format::SampledThread>& threads() const { return threads_; }
  Modules* modules() { return modules_.get(); }
  // Empty for a thread that was running.
  Walk Unwind(const format::SampledThread& thread);

 private:
  // What the files of the modules have at an address, instead of the memory of the process.
  class ModuleMemory : public Memory {
   public:
    explicit ModuleMemory(SampledProcess* process) : Memory(kNobody), process_(process) {}
    bool Read(std::uint64_t address, void* to, std::size_t bytes) override;

   private:
    static constexpr int kNobody = 0;
    SampledProcess* process_;
  };

  SampledProcess() : memory_(this) {}

  std::vector<std::byte> bytes_;
  format::SampleHeader header_{};
  std::vector<format::SampledThread> threads_;
  ModuleMemory memory_;
  std::unique_ptr<Modules> modules_;
};

// All threads with the names of their functions, as if they had been read from outside.
ProcessStacks ReadSample(SampledProcess* process);

}  // namespace ncclwatch::stacks
