// Where a process has its Python, and which one it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/stacks/base/modules.h"
#include "watchdog/cpython/layout.h"

namespace ncclwatch::stacks::python {

using namespace cpython;

struct Runtime {
  bool present = false;
  std::uint64_t address = 0;  // of _PyRuntime
  std::optional<Layout> layout;
  std::string version;
  std::string trouble;     // why there is no layout
  std::size_t module = 0;  // that has it, into Modules::all()
};

// `memory` is of the same process.
Runtime Find(Reader* memory, Modules* modules);

// Lets through what can be Python's: anonymous memory and the interpreter's own file. Other files and devices are left
// alone, whatever a torn pointer says: reading them could wait for a disk or a driver.
class PythonMemory : public Reader {
 public:
  // All must outlive this.
  PythonMemory(Reader* behind, const Maps& maps, const Module& module);
  bool Read(std::uint64_t address, void* to, std::size_t bytes) override;
  void Forget() override { behind_->Forget(); }

 private:
  bool MayRead(std::uint64_t address) const;

  Reader* behind_;
  const Maps& maps_;
  const Module& module_;
};

}  // namespace ncclwatch::stacks::python
