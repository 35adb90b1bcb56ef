#include "analyzer/run/mpi/surroundings.h"

#include <absl/strings/str_split.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "analyzer/files/descriptor.h"
#include "analyzer/files/input_file.h"

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

#if defined(__aarch64__)
constexpr char kTriplet[] = "aarch64-linux-gnu";
#else
constexpr char kTriplet[] = "x86_64-linux-gnu";
#endif

constexpr std::size_t kLargestProgram = 256u << 20;  // looked through for a word; static MPI programs have 50 MB

std::string Variable(const char* name, const char* without = "") {
  const char* value = std::getenv(name);
  return value ? value : without;
}

std::vector<std::string> SplitIfAny(const std::string& list) {
  return list.empty() ? std::vector<std::string>{} : SplitFolders(list);
}

}  // namespace

Surroundings Surroundings::OfThisProcess() {
  std::error_code error;
  Surroundings here;
  here.folder = fs::current_path(error).string();
  here.path = SplitFolders(Variable("PATH", "/bin:/usr/bin"));
  here.libraries = SplitIfAny(Variable("LD_LIBRARY_PATH"));
  here.python_path = SplitIfAny(Variable("PYTHONPATH"));
  here.home = Variable("HOME");
  here.loader_cache = "/etc/ld.so.cache";
  for (const std::string& root : {std::string(), std::string("/usr")})
    for (const std::string& folder : {std::string("/lib/") + kTriplet, std::string("/lib64"), std::string("/lib")})
      here.system_folders.push_back(root + folder);
  return here;
}

std::string Surroundings::FindProgram(const std::string& word) const {
  const auto there = [&](const std::string& place) {
    const std::string file = (fs::path(folder) / place / word).string();
    return IsFile(file) ? file : "";
  };
  if (word.empty() || word.size() >= 4096) return "";  // PATH_MAX
  if (word.find('/') != std::string::npos) return there("");
  for (const std::string& place : path)
    if (const std::string file = there(place); !file.empty() && access(file.c_str(), X_OK) == 0) return file;
  return there("");  // launchers take a program of their own folder without `./`
}

std::vector<std::string> SplitFolders(const std::string& list) {
  std::vector<std::string> folders = absl::StrSplit(list, ':');
  std::replace(folders.begin(), folders.end(), std::string(), std::string("."));
  return folders;
}

std::shared_ptr<stacks::ElfFile> OpenElf(const std::string& path) {
  auto file = OpenRegular(path);
  return file.ok() ? stacks::ElfFile::OfDescriptor(file->Release()) : nullptr;
}

std::vector<std::string> Interpreter(const std::string& path) {
  std::array<char, 512> head;  // execve(2) looks no further
  const auto file = OpenRegular(path);
  if (!file.ok()) return {};
  const ssize_t got = read(file->get(), head.data(), head.size());
  const std::string text(head.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  if (!text.starts_with("#!")) return {};
  return absl::StrSplit(text.substr(2, text.find('\n') - 2), absl::ByAnyChar(" \t\r\v\f"), absl::SkipEmpty());
}

bool FileHas(const std::string& path, const std::string& word) {
  InputFile file(path);
  std::string text;
  std::string piece(1u << 20, '\0');
  for (std::size_t read = 0; read < kLargestProgram; read += piece.size()) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
    if (text.find(word) != std::string::npos) return true;
    if (!file) return false;
    text.erase(0, text.size() - word.size());  // it may lie across two pieces
  }
  return false;
}

std::string FileName(const std::string& path) { return fs::path(path).filename().string(); }

std::string FolderOf(const std::string& path) { return fs::path(path).parent_path().string(); }

bool IsFile(const std::string& path) {
  struct stat status {};
  return path.find('\0') == std::string::npos && stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

std::string Resolved(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? path : real.string();
}

}  // namespace ncclwatch::analyzer
