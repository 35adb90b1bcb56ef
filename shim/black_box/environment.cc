#include "shim/black_box/environment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "ncclwatch/format/environment.h"
#include "ncclwatch/format/fingerprint.h"
#include "watchdog/settings/redact.h"

extern "C" char** environ;

namespace ncclwatch::shim {
namespace {

std::uint64_t HashOf(std::string_view text) {
  std::uint64_t hash = text.size();
  for (const char letter : text) hash = format::Mix(hash, static_cast<unsigned char>(letter));
  return hash;
}

std::string ShortValue(std::string_view value) {
  const std::size_t line_end = value.find_first_of("\r\n");
  if (value.size() <= format::kMostValue && line_end == std::string_view::npos) return std::string(value);
  return fmt::format("{}#{:x}", value.substr(0, std::min(line_end, format::kMostValue)), HashOf(value));
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ...".
std::string KernelDriver() {
  char text[512];
  const int fd = open("/proc/driver/nvidia/version", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t size = read(fd, text, sizeof text);
  close(fd);
  std::string_view rest(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  rest = rest.substr(0, rest.find('\n'));
  for (std::size_t end; !rest.empty(); rest.remove_prefix(std::min(end + 1, rest.size()))) {
    end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    const bool is_version =
        word.find('.') != std::string_view::npos && word.find_first_not_of("0123456789.") == std::string_view::npos;
    if (is_version) return std::string(word);
  }
  return {};
}

std::string VersionLines(const OwnVersions& versions) {
  std::string text;
  if (versions.cuda > 0) text += fmt::format("cuda={}.{}\n", versions.cuda / 1000, versions.cuda % 1000 / 10);
  if (const std::string driver = KernelDriver(); !driver.empty()) text += fmt::format("driver={}\n", driver);
  if (versions.mpi && *versions.mpi) text += fmt::format("mpi={}\n", ShortValue(versions.mpi));
  return text;
}

std::vector<std::string> VariableLines(std::string_view secret_names) {
  std::vector<std::string> lines;
  for (char** variable = environ; variable && *variable; ++variable) {
    const std::string_view text = *variable;
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    if (equals == std::string_view::npos || !format::ShouldBeAlike(name) || settings::IsSecretName(name, secret_names))
      continue;
    const std::string value = settings::Redacted(text.substr(equals + 1), secret_names);
    lines.push_back(fmt::format("{}={}\n", name, ShortValue(value)));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

void NoteEnvironment(Box& box, const OwnVersions& versions) {
  static std::atomic<const Box*> noted{nullptr};  // a fork child has a box of its own
  if (noted.exchange(&box, std::memory_order_relaxed) == &box) return;
  std::string text = VersionLines(versions);
  for (const std::string& line : VariableLines(box.secret_names)) {
    if (text.size() + line.size() > format::kMostEnvironment) {
      text += format::kEnvironmentCut;
      break;
    }
    text += line;
  }
  if (text.empty()) text.push_back('\n');  // said, and there is nothing
  // Pairs with the readers' acquire: who sees the offset sees the text.
  std::atomic_ref(box.header->environment).store(AddString(box, text.c_str()), std::memory_order_release);
}

}  // namespace ncclwatch::shim
