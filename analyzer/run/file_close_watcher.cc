#include "analyzer/run/file_close_watcher.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <cstring>

namespace ncclwatch::analyzer {

FileCloseWatcher::FileCloseWatcher() : descriptor_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {}

void FileCloseWatcher::Watch(const std::string& directory) {
  if (descriptor_) inotify_add_watch(descriptor_.get(), directory.c_str(), IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
}

int FileCloseWatcher::Follow(const std::string& box) {
  return descriptor_ ? inotify_add_watch(descriptor_.get(), box.c_str(), IN_CLOSE_WRITE | IN_DONT_FOLLOW) : -1;
}

std::vector<int> FileCloseWatcher::Take() {
  std::vector<int> closed;
  alignas(inotify_event) char events[16384];
  for (ssize_t got = 0; descriptor_ && (got = read(descriptor_.get(), events, sizeof events)) > 0;) {
    for (ssize_t at = 0; at < got;) {
      inotify_event event;
      std::memcpy(&event, events + at, sizeof event);
      at += static_cast<ssize_t>(sizeof event + event.len);
      if (event.mask & IN_Q_OVERFLOW) lost_ = true;
      if (event.mask & IN_CLOSE_WRITE) closed.push_back(event.wd);
    }
  }
  return closed;
}

}  // namespace ncclwatch::analyzer
