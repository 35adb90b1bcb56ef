// Where the sections of one black box lie, checked against the size of the file. A private copy: a hostile writer may
// change the header after the check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ncclwatch/format/black_box.h"
#include "ncclwatch/format/event.h"
#include "ncclwatch/format/payload.h"
#include "ncclwatch/format/python_site.h"

namespace ncclwatch::reader {

// NCCL's own limits are far below; what exceeds them is damage and must not size an allocation.
inline constexpr std::uint32_t kMaxCommunicatorSize = 1u << 20;
inline constexpr std::uint64_t kMaxFileBytes = 1ull << 30;

struct Layout {
  const format::Communicator* communicators = nullptr;
  const format::Record* ring = nullptr;
  const format::Peer* peers = nullptr;
  const format::Observation* observations = nullptr;
  const format::Words* words = nullptr;               // null in boxes of older writers
  bool has_misuses = false;                           // in `words`
  const format::Part* parts = nullptr;                // null in boxes of version 1
  const format::Note* notes = nullptr;                // null in boxes of older writers
  const format::Events* events = nullptr;             // likewise
  const format::Payloads* payloads = nullptr;         // likewise
  const format::PythonSites* python_sites = nullptr;  // null without Python and in boxes of older writers
  const char* strings = nullptr;
  std::uint32_t communicator_count = 0;
  std::uint32_t ring_count = 0;
  std::uint32_t peer_count = 0;
  std::uint32_t observation_count = 0;
  std::uint32_t part_count = 0;
  std::uint32_t note_count = 0;
  std::uint32_t string_bytes = 0;
};

// The reason, empty if the first sizeof(Header) bytes are a header that this version can read. `available`: bytes at
// `header`; `file_bytes`: size of the file.
std::string CheckHeader(const void* header, std::size_t available, std::uint64_t file_bytes);

// After CheckHeader, with all of the file at `base` (aligned to a page). The reason, empty if *layout is set.
std::string CheckSections(const void* base, std::uint64_t file_bytes, Layout* layout);

}  // namespace ncclwatch::reader
