// A Python program that is fed through its standard input, and answers on its standard output.
#pragma once

#include <absl/status/status.h>
#include <sys/types.h>

#include <string>
#include <string_view>

#include "analyzer/files/descriptor.h"

namespace ncclwatch::analyzer::exporting {

class PythonChild {
 public:
  PythonChild() = default;
  PythonChild(const PythonChild&) = delete;
  PythonChild& operator=(const PythonChild&) = delete;
  ~PythonChild();  // its input ends, and it is waited for

  // $NCCLWATCH_PYTHON, which the Python package sets, or the python3 of PATH, in isolated mode. The program is handed
  // over with -c.
  absl::Status Start(std::string_view program);
  const std::string& python() const { return python_; }
  absl::Status Write(std::string_view bytes);
  std::string ReadLine();  // empty: it has ended
  void EndOfInput() { to_ = Descriptor(); }
  absl::Status Wait();  // for its end

 private:
  std::string python_;
  pid_t pid_ = -1;
  Descriptor to_, from_;
};

}  // namespace ncclwatch::analyzer::exporting
