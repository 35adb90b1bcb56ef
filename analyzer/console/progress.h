// A progress bar on stderr: only on a terminal, and only once the work has lasted for more than a second.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace ncclwatch::analyzer {

class Progress {
 public:
  Progress(std::string label, std::size_t total);
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void Done(std::size_t done);

 private:
  std::string label_;
  std::size_t total_;
  std::chrono::steady_clock::time_point began_, drawn_;
  bool terminal_;
};

}  // namespace ncclwatch::analyzer
