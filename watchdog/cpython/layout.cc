#include "watchdog/cpython/layout.h"

#include <fmt/core.h>

#include <cstring>

namespace ncclwatch::cpython {
namespace {

constexpr std::size_t kKnownVersions = 10;
// The columns of the table.
constexpr std::array<std::pair<int, bool>, kKnownVersions> kVersions{{{9, false},
                                                                      {10, false},
                                                                      {11, false},
                                                                      {12, false},
                                                                      {13, false},
                                                                      {14, false},
                                                                      {15, false},
                                                                      {13, true},
                                                                      {14, true},
                                                                      {15, true}}};
constexpr std::int32_t kTable[][kKnownVersions] = {
#include "watchdog/cpython/layouts.inc"
};
static_assert(std::size(kTable) == kFields);

// Larger than any struct of any version; what is said to lie further on is damaged.
constexpr std::uint64_t kMostOffset = 1u << 22;
constexpr std::size_t kMostSaid = 128;  // words of _Py_DebugOffsets

// These are not in _Py_DebugOffsets: the table has them themselves.
bool IsSaid(Field field) { return field < kStrWideAfterAscii; }

}  // namespace

std::optional<Layout> KnownLayout(int minor, bool free_threaded) {
  for (std::size_t version = 0; version < kKnownVersions; ++version) {
    if (kVersions[version] != std::pair(minor, free_threaded)) continue;
    Layout layout{minor, free_threaded, {}};
    for (std::size_t field = 0; field < kFields; ++field) layout.at[field] = kTable[field][version];
    return layout;
  }
  return std::nullopt;
}

std::string VersionText(std::uint32_t hex) {
  return fmt::format("{}.{}.{}", hex >> 24, hex >> 16 & 0xff, hex >> 8 & 0xff);
}

SaidLayout ReadLayout(Reader* memory, std::uint64_t runtime) {
  constexpr std::size_t kVersionWord = 1, kFreeThreadedWord = 2;
  std::array<std::uint64_t, kMostSaid> said{};
  if (!memory->Read(runtime, said.data(), sizeof(said))) return {{}, 0, "its offsets could not be read"};
  if (std::memcmp(said.data(), kDebugCookie, sizeof(std::uint64_t)) != 0)
    return {{}, 0, "it does not begin with its offsets"};
  SaidLayout answer;
  answer.version = static_cast<std::uint32_t>(said[kVersionWord]);
  const bool free_threaded = said[kFreeThreadedWord] != 0;
  const int minor = answer.version >> 24 == 3 ? static_cast<int>(answer.version >> 16 & 0xff) : 0;
  answer.layout = KnownLayout(minor, free_threaded);
  if (!answer.layout || minor < kFirstSayingMinor) {
    answer.layout.reset();
    answer.trouble = "its layout is not known";
    return answer;
  }
  for (std::size_t field = 0; field < kFields; ++field) {
    std::int32_t& at = answer.layout->at[field];
    if (!IsSaid(static_cast<Field>(field)) || at == kAbsent) continue;
    const std::uint64_t offset = said[static_cast<std::size_t>(at) / sizeof(std::uint64_t)];
    if (offset >= kMostOffset) return {{}, answer.version, "its offsets are damaged"};
    at = static_cast<std::int32_t>(offset);
  }
  for (const Field field : {kGilHolder, kGilLocked, kGilEnabled}) answer.layout->at[field] -= answer.layout->at[kGil];
  if (!free_threaded)  // what such a build has not is said as 0
    for (const Field field : {kGilEnabled, kFrameCodeCopy, kCodeCopies}) answer.layout->at[field] = kAbsent;
  return answer;
}

}  // namespace ncclwatch::cpython
