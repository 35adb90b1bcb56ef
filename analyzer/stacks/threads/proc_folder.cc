#include "analyzer/stacks/threads/proc_folder.h"

#include <absl/cleanup/cleanup.h>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace ncclwatch::stacks {

ProcFolder::ProcFolder(const std::string& path) : folder_(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}

std::optional<std::string> ProcFolder::Read(const char* name, std::size_t limit) const {
  const analyzer::Descriptor file(openat(folder_.get(), name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text;
  std::array<char, 4096> piece;
  ssize_t got = file ? 0 : -1;
  while (file && text.size() < limit &&
         (got = read(file.get(), piece.data(), std::min(piece.size(), limit - text.size()))) > 0)
    text.append(piece.data(), static_cast<std::size_t>(got));
  if (got < 0) error_ = errno;
  if (got < 0 && text.empty()) return std::nullopt;
  return text;
}

std::optional<std::string> ProcFolder::ReadShort(const char* name) const {
  const analyzer::Descriptor file(openat(folder_.get(), name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 4096> text;
  const ssize_t got = file ? read(file.get(), text.data(), text.size()) : -1;
  if (got < 0) error_ = errno;
  if (got < 0) return std::nullopt;
  return std::string(text.data(), static_cast<std::size_t>(got));
}

std::optional<std::string> ProcFolder::Link(const char* name) const {
  std::array<char, 4096> to;
  const ssize_t bytes = readlinkat(folder_.get(), name, to.data(), to.size());
  if (bytes < 0) {
    error_ = errno;
    return std::nullopt;
  }
  return std::string(to.data(), static_cast<std::size_t>(bytes));
}

std::vector<std::string> ProcFolder::Names(const char* folder) const {
  std::vector<std::string> names;
  analyzer::Descriptor opened(openat(folder_.get(), folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const entries = opened ? fdopendir(opened.get()) : nullptr;
  if (!entries) {
    error_ = errno;
    return names;
  }
  opened.Release();
  const absl::Cleanup close_entries = [entries] { closedir(entries); };
  while (const dirent* entry = readdir(entries))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  return names;
}

std::string FieldOf(const std::string& text, const char* name) {
  const std::string label = std::string(name) + ':';
  std::size_t at = text.starts_with(label) ? 0 : text.find('\n' + label);
  if (at == std::string::npos) return "";
  at += label.size() + (at == 0 && text.starts_with(label) ? 0 : 1);
  const std::size_t begin = text.find_first_not_of(" \t", at);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace ncclwatch::stacks
