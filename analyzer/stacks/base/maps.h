// The memory map of a process (/proc/PID/maps).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ncclwatch::stacks {

struct Mapping {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t inode = 0;   // 0: not a file
  std::uint32_t device_major = 0, device_minor = 0;
  bool readable = false, writable = false, executable = false;
  std::string path;  // "[vdso]", "[stack]", "" for anonymous memory; " (deleted)" is cut off and said in `deleted`
  bool deleted = false;

  bool Contains(std::uint64_t address) const { return address >= begin && address < end; }
};

class Maps {
 public:
  Maps() = default;
  explicit Maps(std::string_view text);  // of the file; lines that are none are passed over
  // Empty if the process is gone, a zombie or not ours to read.
  static Maps Of(int pid);

  const std::vector<Mapping>& all() const { return mappings_; }  // by address, ascending
  const Mapping* At(std::uint64_t address) const;

 private:
  std::vector<Mapping> mappings_;
};

}  // namespace ncclwatch::stacks
