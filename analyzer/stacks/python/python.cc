#include "analyzer/stacks/python/python.h"

#include "analyzer/stacks/python/find.h"
#include "analyzer/stacks/python/threads.h"

namespace ncclwatch::stacks::python {

Stacks Read(int pid, Modules* modules, Want want) {
  Memory memory(pid);
  const Runtime runtime = Find(&memory, modules);
  Stacks stacks;
  if (runtime.layout) {
    PythonMemory checked(&memory, modules->maps(), modules->all()[runtime.module]);
    stacks = ReadThreads(&checked, *runtime.layout, runtime.address, TasksOf(pid), want);
  }
  stacks.present = runtime.present;
  stacks.version = runtime.version;
  if (stacks.trouble.empty()) stacks.trouble = runtime.trouble;
  return stacks;
}

}  // namespace ncclwatch::stacks::python
