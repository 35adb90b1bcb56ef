// From addresses to source lines, by the files' own debug information (DWARF 2 to 5, also split).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/base/stack.h"

namespace ncclwatch::stacks {

struct SourceLine {
  std::string file;      // as the compiler was given it
  int line = 0;          // 0: not known
  std::string function;  // the innermost one, inlined functions by their own name; readable, without parameters
};

// Files stay open between questions. Not thread-safe.
class SourceLines {
 public:
  SourceLines();
  ~SourceLines();
  SourceLines(const SourceLines&) = delete;
  SourceLines& operator=(const SourceLines&) = delete;

  // Of the instruction at a link-time address of the file, a program or a library. None if its debug information is not
  // here, says nothing of the address, or if the file was written after `since_real_ns` (CLOCK_REALTIME): then it may
  // be another one than the process ran.
  std::optional<SourceLine> At(const std::string& path, std::uint64_t address, std::int64_t since_real_ns);
  // Whole numbers among the local variables of a native frame; what is on its stack is read through `memory`.
  std::vector<Frame::Variable> NumbersOf(const Frame& frame, Reader* memory);

 private:
  class File;
  File& FileAt(const std::string& path);
  std::map<std::string, std::unique_ptr<File>> files_;
};

}  // namespace ncclwatch::stacks
