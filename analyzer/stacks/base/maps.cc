#include "analyzer/stacks/base/maps.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "watchdog/rundir/process.h"

namespace ncclwatch::stacks {
namespace {

constexpr std::size_t kMostBytes = 64u << 20;  // a process may have 65,530 mappings by default, lines of 100 bytes
constexpr std::string_view kDeleted = " (deleted)";

// Takes a number and the character after it off the text's front.
bool Take(std::string_view* text, int base, char after, std::uint64_t* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number, base);
  if (error != std::errc{} || end == text->data() + text->size() || *end != after) return false;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()) + 1);
  return true;
}

// "7f12a000-7f12b000 r-xp 00001000 fe:01 1234    /usr/lib/libx.so"
std::optional<Mapping> ParseLine(std::string_view line) {
  Mapping mapping;
  std::uint64_t major = 0, minor = 0;
  if (!Take(&line, 16, '-', &mapping.begin) || !Take(&line, 16, ' ', &mapping.end) || line.size() < 5)
    return std::nullopt;
  mapping.readable = line[0] == 'r';
  mapping.writable = line[1] == 'w';
  mapping.executable = line[2] == 'x';
  line.remove_prefix(5);
  if (!Take(&line, 16, ' ', &mapping.offset) || !Take(&line, 16, ':', &major) || !Take(&line, 16, ' ', &minor))
    return std::nullopt;
  mapping.device_major = static_cast<std::uint32_t>(major);
  mapping.device_minor = static_cast<std::uint32_t>(minor);
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), mapping.inode);
  if (error != std::errc{} || mapping.end <= mapping.begin) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  const std::size_t path = line.find_first_not_of(' ');
  if (path != std::string_view::npos) line.remove_prefix(path);
  mapping.deleted = path != std::string_view::npos && line.ends_with(kDeleted);
  if (mapping.deleted) line.remove_suffix(kDeleted.size());
  if (path != std::string_view::npos) mapping.path = line;
  return mapping;
}

}  // namespace

Maps::Maps(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (auto mapping = ParseLine(text.substr(0, end))) mappings_.push_back(std::move(*mapping));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const auto by_address = [](const Mapping& a, const Mapping& b) { return a.begin < b.begin; };
  if (!std::is_sorted(mappings_.begin(), mappings_.end(), by_address))
    std::sort(mappings_.begin(), mappings_.end(), by_address);
}

Maps Maps::Of(int pid) {
  return Maps(rundir::ReadSmall("/proc/" + std::to_string(pid) + "/maps", kMostBytes).value_or(""));
}

const Mapping* Maps::At(std::uint64_t address) const {
  auto after = std::upper_bound(mappings_.begin(), mappings_.end(), address,
                                [](std::uint64_t wanted, const Mapping& mapping) { return wanted < mapping.begin; });
  if (after == mappings_.begin()) return nullptr;
  --after;
  return after->Contains(address) ? &*after : nullptr;
}

}  // namespace ncclwatch::stacks
