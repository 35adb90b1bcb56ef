// ld.so.cache: where ldconfig found each library.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <string>
#include <vector>

namespace ncclwatch::analyzer {

// Files by the library's name; empty if there is no cache that could be read. Nothing in it is trusted.
using LoaderCache = absl::flat_hash_map<std::string, std::vector<std::string>>;
LoaderCache ReadLoaderCache(const std::string& path);

}  // namespace ncclwatch::analyzer
