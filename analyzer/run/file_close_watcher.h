// In which order the processes of a job let go of their black boxes, from the kernel's own queue: exact, however late
// this process is scheduled.
//
// A process that ends lets its descriptors go one after the other, the latest numbers first, and only then becomes a
// zombie. The black box has a high number, its launcher's socket a low one: a launcher that kills the others since a
// socket was closed does so after the first one's black box was closed, and before any other's.
#pragma once

#include <string>
#include <vector>

#include "analyzer/files/descriptor.h"

namespace ncclwatch::analyzer {

class FileCloseWatcher {
 public:
  FileCloseWatcher();
  int descriptor() const { return descriptor_.get(); }  // -1: the system has none left, nothing will be told
  // Wakes for new files and directories there too. Of one that is watched already nothing changes.
  void Watch(const std::string& directory);
  // A number for Take(), -1: not told. Before the process is looked at, so that no end lies between.
  int Follow(const std::string& box);
  // What was closed since, each by its last writer, in order.
  std::vector<int> Take();
  bool lost() const { return lost_; }  // there was too much to tell: no order is known any more

 private:
  Descriptor descriptor_;
  bool lost_ = false;
};

}  // namespace ncclwatch::analyzer
