#include "analyzer/run/mpi/library_search.h"

#include <absl/container/flat_hash_set.h>
#include <absl/strings/str_replace.h>

#include <deque>
#include <filesystem>

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

// More than any real program needs: a damaged one must not keep us.
constexpr std::size_t kMostObjects = 4096;

// The folders of an object's own list, with what ld.so(8) puts in for $ORIGIN and $LIB.
std::vector<std::string> FoldersOf(const std::string& list, const LoadedObject& object) {
  if (list.empty()) return {};
  std::vector<std::string> folders;
  for (std::string& folder : SplitFolders(list)) {
    const std::string origin = FolderOf(object.path);
    folder = absl::StrReplaceAll(folder, {{"$ORIGIN", origin}, {"${ORIGIN}", origin}});
    std::vector<std::string> variants{folder};
    if (folder.find("LIB") != std::string::npos)
      for (const char* lib : {"lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64", "lib"})
        variants.push_back(absl::StrReplaceAll(folder, {{"${LIB}", lib}, {"$LIB", lib}}));
    folders.insert(folders.end(), variants.begin(), variants.end());
  }
  return folders;
}

std::vector<std::string> OldPaths(const LoadedObject& object) {
  std::vector<std::string> paths = FoldersOf(object.links.rpath, object);
  paths.insert(paths.end(), object.inherited.begin(), object.inherited.end());
  return paths;
}

}  // namespace

std::optional<LoadedObject> LibrarySearch::Open(const std::string& path) {
  auto file = OpenElf(path);
  if (!file) return std::nullopt;
  stacks::Links links = file->ReadLinks();
  // $ORIGIN is the folder of the file itself, not of a link to it.
  return LoadedObject{Resolved(path), std::move(file), std::move(links), {}};
}

const LoaderCache& LibrarySearch::cache() {
  if (!cache_) cache_ = ReadLoaderCache(here_.loader_cache);
  return *cache_;
}

std::optional<LoadedObject> LibrarySearch::Find(const std::string& name, const LoadedObject& by) {
  const auto usable = [&](const std::string& path) {
    auto object = Open((fs::path(here_.folder) / path).string());
    if (object && object->file->machine() != by.file->machine()) object.reset();
    if (object) object->inherited = OldPaths(by);
    return object;
  };
  if (name.empty() || name.find('/') != std::string::npos) return usable(name);
  std::vector<std::string> folders;
  const auto add = [&](const std::vector<std::string>& more) {
    folders.insert(folders.end(), more.begin(), more.end());
  };
  if (by.links.runpath.empty()) add(OldPaths(by));
  add(here_.libraries);
  add(FoldersOf(by.links.runpath, by));
  for (const std::string& folder : folders)
    if (auto object = usable(folder + "/" + name)) return object;
  if (const auto entry = cache().find(name); entry != cache().end())
    for (const std::string& path : entry->second)
      if (auto object = usable(path)) return object;
  for (const std::string& folder : here_.system_folders)
    if (auto object = usable(folder + "/" + name)) return object;
  return std::nullopt;
}

void LibrarySearch::Walk(const LoadedObject& program, const Visit& visit) {
  absl::flat_hash_set<std::string> seen;
  std::deque<LoadedObject> waiting{program};
  for (; !waiting.empty(); waiting.pop_front()) {
    const LoadedObject by = waiting.front();
    for (const std::string& name : by.links.needed) {
      if (seen.size() >= kMostObjects || !seen.insert(name).second) continue;
      auto library = Find(name, by);
      if (!visit(name, by, library ? &*library : nullptr)) return;
      if (library) waiting.push_back(std::move(*library));
    }
  }
}

}  // namespace ncclwatch::analyzer
