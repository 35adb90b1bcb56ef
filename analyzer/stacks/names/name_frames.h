// From addresses to names of functions.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/stacks/base/modules.h"
#include "analyzer/stacks/base/stack.h"
#include "analyzer/stacks/unwind/unwind.h"

namespace ncclwatch::stacks {

// Names found before, by file and link-time address: ranks of one node stand in the same functions.
class NameCache {
 public:
  // Asks the file for all addresses that are not known yet, in one walk through its symbols.
  void Learn(const std::shared_ptr<ElfFile>& file, const std::vector<std::uint64_t>& addresses);
  // Empty if the file has no name for it.
  const std::string& NameOf(const std::shared_ptr<ElfFile>& file, std::uint64_t address) const;

 private:
  std::map<std::shared_ptr<ElfFile>, std::unordered_map<std::uint64_t, std::string>> names_;
  std::map<std::shared_ptr<ElfFile>, std::shared_ptr<ElfFile>> debug_files_;  // null: there is none
};

// One frame list for each walk, in order.
std::vector<std::vector<Frame>> NameFrames(const std::vector<Walk>& walks, Modules* modules, NameCache* names);

}  // namespace ncclwatch::stacks
