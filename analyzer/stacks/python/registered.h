// The Python objects that stand for C++ objects, as pybind11's table has them: nothing in the C++ object leads there.
#pragma once

#include <cstdint>

#include "watchdog/cpython/objects.h"

namespace ncclwatch::stacks::python {

using namespace cpython;

// Not thread-safe. Ends for any memory.
class Registered {
 public:
  // `interpreter`: address of its state. Without the table no object is known.
  Registered(Reader* memory, Objects* objects, std::uint64_t interpreter);

  // Address of the Python object that stands for the C++ object at this address; 0 if there is none.
  std::uint64_t ObjectFor(std::uint64_t address) const;

 private:
  // Of std::unordered_multimap<const void*, instance*> in libstdc++.
  struct Table {
    std::uint64_t buckets = 0, bucket_count = 0, first = 0, size = 0;
    float most_load = 0;
  };
  struct Node {
    std::uint64_t next = 0, address = 0, object = 0;
  };

  std::uint64_t Internals(std::uint64_t interpreter) const;
  bool StandsFor(std::uint64_t object, std::uint64_t address) const;
  bool HasObjects(const Table& table) const;

  Reader* memory_;
  Objects* objects_;
  Table table_;
};

}  // namespace ncclwatch::stacks::python
