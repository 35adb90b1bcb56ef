// The libraries that a program needs, found as ld.so(8) would, without running anything.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/run/mpi/loader_cache.h"
#include "analyzer/run/mpi/surroundings.h"

namespace ncclwatch::analyzer {

// One object of a program's: the program itself, a library.
struct LoadedObject {
  std::string path;
  std::shared_ptr<stacks::ElfFile> file;
  stacks::Links links;
  std::vector<std::string> inherited;  // DT_RPATH of those that loaded it
};

class LibrarySearch {
 public:
  explicit LibrarySearch(const Surroundings& here) : here_(here) {}

  static std::optional<LoadedObject> Open(const std::string& path);
  std::optional<LoadedObject> Find(const std::string& name, const LoadedObject& needed_by);
  // Level by level, each name once; `visit` gets the name, who needs it and, where it was found, the library, and
  // says whether to go on.
  using Visit = std::function<bool(const std::string& name, const LoadedObject& by, const LoadedObject* library)>;
  void Walk(const LoadedObject& program, const Visit& visit);

 private:
  const LoaderCache& cache();

  const Surroundings& here_;
  std::optional<LoaderCache> cache_;
};

}  // namespace ncclwatch::analyzer
