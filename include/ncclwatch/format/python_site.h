// The lines of Python from which the process made calls (NCCLWATCH_SITES). The table lies in the section of the
// strings, on the page behind them. Processes without a Python and older writers have none: there the strings end their
// section. A record whose `site` is from 1 to kPythonSites refers to entry site - 1; no code has such an address.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>

#include "ncclwatch/format/black_box.h"

namespace ncclwatch::format {

inline constexpr std::uint32_t kPythonSites = 1024;  // calls from further lines have the native call site alone

struct PythonSite {
  std::uint64_t native;          // return address of the call
  std::int32_t line;             // 0: not known
  std::uint32_t on_main_thread;  // 1: the calling thread ran no code of the program; the main thread stood here
  char file[176];                // UTF-8, ends with 0; without its beginning if it is longer
  char function[64];             // UTF-8, ends with 0, cut
};
static_assert(sizeof(PythonSite) == 256);

struct PythonSites {
  std::atomic<std::uint32_t> used;      // entries that are whole
  std::atomic<std::uint32_t> given_up;  // 1: frames could not be read again and again
  std::uint32_t reserved[14];
  PythonSite entries[kPythonSites];
};
static_assert(sizeof(PythonSites) == 64 + kPythonSites * sizeof(PythonSite));

// As a call site is named: "/path/of/train.py:24 in train", with kOnMainThread behind it where that is so.
inline constexpr char kOnMainThread[] = " (main thread)";
inline void PythonSiteName(const PythonSite& site, char* name, std::size_t bytes) {
  std::snprintf(name, bytes, "%s:%d in %s%s", site.file, site.line, site.function[0] ? site.function : "?",
                site.on_main_thread ? kOnMainThread : "");
}
inline constexpr std::size_t kPythonSiteName = 300;

// Where it begins, in bytes from the start of the file; 0: there is none.
inline std::uint64_t PythonSitesOffset(const Section& strings) {
  const std::uint64_t behind = (std::uint64_t{strings.count} + kPage - 1) / kPage * kPage;
  return strings.bytes >= behind + sizeof(PythonSites) ? strings.offset + behind : 0;
}

// Of the writer's own file; null: there is none.
inline PythonSites* OwnPythonSites(Header* header) {
  const std::uint64_t offset = PythonSitesOffset(header->strings);
  return offset == 0 ? nullptr : reinterpret_cast<PythonSites*>(reinterpret_cast<char*>(header) + offset);
}

}  // namespace ncclwatch::format
