#include "analyzer/stacks/lines/debug_file.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace ncclwatch::stacks {
namespace {

namespace fs = std::filesystem;

constexpr char kSystem[] = "/usr/lib/debug";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// As debuginfod_find_debuginfo(3) chooses it.
std::string DebuginfodCache() {
  if (std::string path = Variable("DEBUGINFOD_CACHE_PATH"); !path.empty()) return path;
  if (const std::string cache = Variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/debuginfod_client";
  const std::string home = Variable("HOME");
  return home.empty() ? home : home + "/.cache/debuginfod_client";
}

}  // namespace

std::vector<std::string> DebugFiles(const std::string& path, const DebugLink& link) {
  std::vector<std::string> files;
  const fs::path folder = fs::path(path).parent_path();
  if (link.build_id.size() > 2) {
    const std::string below = fmt::format(".build-id/{}/{}.debug", link.build_id.substr(0, 2), link.build_id.substr(2));
    files.push_back(fmt::format("{}/{}", kSystem, below));
    // bin/ or lib/ncclwatch/ of a prefix of its own.
    for (const fs::path& prefix : {folder.parent_path(), folder.parent_path().parent_path()})
      files.push_back((prefix / "lib/debug" / below).string());
  }
  if (!link.file.empty() && link.file.find('/') == std::string::npos) {
    files.push_back((folder / link.file).string());
    files.push_back((folder / ".debug" / link.file).string());
    files.push_back(kSystem + (folder / link.file).string());
  }
  if (const std::string cache = DebuginfodCache(); !cache.empty() && !link.build_id.empty())
    files.push_back(fmt::format("{}/{}/debuginfo", cache, link.build_id));
  return files;
}

}  // namespace ncclwatch::stacks
