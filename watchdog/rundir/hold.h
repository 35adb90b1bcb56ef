// "In use", of a run directory in which no black box says so yet: a shared lock (flock) on the directory itself. Who
// enters holds one from before its claim until its box is there, `ncclwatch run` from before the first rank starts.
// Who removes the directory must have the exclusive one.
#pragma once

#include <memory>
#include <string>

namespace ncclwatch::rundir {

class Hold {
 public:
  // Null: it is gone, was removed while this waited, or is being removed for too long (*removing says which).
  // Where the file system knows no such locks the directory is held in name only.
  static std::shared_ptr<const Hold> Of(const std::string& path, bool* removing);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  explicit Hold(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace ncclwatch::rundir
