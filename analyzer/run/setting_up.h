// What the job finds when it starts under `ncclwatch run`: its library, its run directory, its variables.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "watchdog/settings/settings.h"

namespace ncclwatch::analyzer {

struct NotPossible {
  std::string reason;  // one line
};

// libncclwatch.so beside this program: ../lib/ of its folder.
std::variant<std::string, NotPossible> FindLibrary();

// LD_PRELOAD with the library in front; what the user preloads stays. Unchanged if it names a libncclwatch already.
std::string Preload(const std::string& library, const std::string& before);
// Whether it names one.
bool PreloadsOurs(const std::string& before);

// The place of this job's black boxes (see rundir/run_directory.h).
class RunPlace {
 public:
  // The user's own directory if the settings name one, which then stays in any case; else a new one of ours.
  static std::variant<RunPlace, NotPossible> Make(const settings::Settings& settings, const std::string& command);
  const std::string& path() const { return path_; }
  bool ours() const { return held_ >= 0; }
  // A name of the library without spaces and colons, which LD_PRELOAD cannot hold: a link in the run directory.
  std::variant<std::string, NotPossible> NameFor(const std::string& library) const;
  // Removes it, if it is ours and no process of it lives, or the user's and as empty as it was made.
  void Remove();

  RunPlace(RunPlace&& other) noexcept
      : path_(std::move(other.path_)), held_(std::exchange(other.held_, -1)), made_(other.made_) {}
  RunPlace& operator=(RunPlace&&) = delete;
  ~RunPlace();

 private:
  RunPlace(std::string path, int held) : path_(std::move(path)), held_(held) {}
  std::string path_;
  int held_;           // of HoldPlace
  bool made_ = false;  // the user's, and not there before
};

}  // namespace ncclwatch::analyzer
