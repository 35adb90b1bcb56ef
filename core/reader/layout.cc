#include "core/reader/layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ncclwatch::reader {
namespace {

constexpr std::uint32_t Swapped(std::uint32_t value) { return __builtin_bswap32(value); }

std::string Bytes(std::uint64_t count) { return std::to_string(count) + " bytes"; }

bool AllZero(const void* data, std::size_t bytes) {
  const auto* first = static_cast<const unsigned char*>(data);
  return std::all_of(first, first + bytes, [](unsigned char byte) { return byte == 0; });
}

std::string CheckClock(const format::Clock& clock) {
  if (clock.source > static_cast<std::uint32_t>(format::ClockSource::kCycleCounter)) {
    return "damaged: clock source " + std::to_string(clock.source);
  }
  if (clock.source == static_cast<std::uint32_t>(format::ClockSource::kMonotonic)) return {};
  const std::uint32_t anchored = clock.anchored.load(std::memory_order_acquire);
  if (anchored == 0) return "damaged: no clock anchor";
  const double rate = clock.anchors[(anchored - 1) % format::kClockAnchors].ns_per_tick;
  if (!std::isfinite(rate) || rate <= 0 || rate > 1e6) return "damaged: clock rate is not a number of nanoseconds";
  return {};
}

struct Claim {
  const char* name;
  const format::Section& section;
  std::size_t entry_bytes;
  std::uint32_t max_count;
};

std::string CheckSection(const Claim& claim, std::uint64_t file_bytes) {
  const format::Section& section = claim.section;
  const std::string where = std::string("damaged: the ") + claim.name + " section ";
  if (section.entry_bytes != claim.entry_bytes) {
    return where + "has entries of " + Bytes(section.entry_bytes) + ", not " + std::to_string(claim.entry_bytes);
  }
  if (section.count > claim.max_count) return where + "claims " + std::to_string(section.count) + " entries";
  if (section.offset < format::kPage || section.offset % format::kPage != 0) {
    return where + "begins at byte " + std::to_string(section.offset);
  }
  if (section.offset > file_bytes || section.bytes > file_bytes - section.offset) {
    return where + "ends outside the file (" + Bytes(file_bytes) + ")";
  }
  if (std::uint64_t{section.count} * section.entry_bytes > section.bytes) return where + "is smaller than its entries";
  return {};
}

template <typename Entry>
const Entry* At(const void* base, std::uint64_t offset) {
  return reinterpret_cast<const Entry*>(static_cast<const char*>(base) + offset);
}

}  // namespace

std::string CheckHeader(const void* data, std::size_t available, std::uint64_t file_bytes) {
  if (file_bytes == 0) return "empty file";
  if (AllZero(data, std::min(available, sizeof(format::Header)))) return "zeroed: no header in it";
  if (available < sizeof(format::kMagic) || std::memcmp(data, format::kMagic, sizeof(format::kMagic)) != 0) {
    return "not a black box: it does not begin with NCCLWBOX";
  }
  if (available < sizeof(format::Header)) {
    return "truncated: " + Bytes(file_bytes) + ", the header alone has " + std::to_string(sizeof(format::Header));
  }
  const auto& header = *static_cast<const format::Header*>(data);
  if (header.endian_mark == Swapped(format::kEndianMark)) return "written on a machine of the other byte order";
  if (header.endian_mark != format::kEndianMark) return "damaged: no byte order mark";
  if (header.version > format::kVersion) {
    return "format version " + std::to_string(header.version) + " is newer than " + std::to_string(format::kVersion) +
           ", the newest this program reads: use a newer ncclwatch";
  }
  if (header.version == 0) return "damaged: format version 0";
  const std::size_t header_bytes = header.version == 1 ? format::kHeaderBytesOf1 : sizeof(format::Header);
  if (header.header_bytes != header_bytes) {
    return "damaged: a header of " + Bytes(header.header_bytes) + ", version " + std::to_string(header.version) +
           " has " + std::to_string(header_bytes);
  }
  if (header.file_bytes > kMaxFileBytes) return "damaged: claims " + Bytes(header.file_bytes);
  if (header.file_bytes > file_bytes) {
    return "truncated: " + std::to_string(file_bytes) + " of " + Bytes(header.file_bytes);
  }
  return CheckClock(header.clock);
}

std::string CheckSections(const void* base, std::uint64_t file_bytes, Layout* layout) {
  const auto& header = *static_cast<const format::Header*>(base);
  const Claim claims[] = {
      {"communicator", header.communicators, sizeof(format::Communicator), kMaxCommunicatorSize},
      {"ring", header.ring, sizeof(format::Record), 1u << 22},
      {"peer", header.peers, sizeof(format::Peer), 1u << 24},
      {"observation", header.observations, sizeof(format::Observation), 1u << 20},
      {"string", header.strings, 1, 1u << 28},
  };
  for (const Claim& claim : claims) {
    std::string reason = CheckSection(claim, file_bytes);
    if (!reason.empty()) return reason;
  }
  const bool has_words = header.words.count != 0;
  if (has_words) {
    const bool older = header.words.entry_bytes == format::kWordsBytesWithoutMisuses;
    const std::size_t bytes = older ? format::kWordsBytesWithoutMisuses : format::kWordsBytes;
    std::string reason = CheckSection({"words", header.words, bytes, 1}, file_bytes);
    if (!reason.empty()) return reason;
    layout->has_misuses = !older;
  }
  const bool has_parts = header.version >= 2 && header.parts.count != 0;
  if (has_parts) {
    std::string reason = CheckSection({"parts", header.parts, sizeof(format::Part), 1u << 24}, file_bytes);
    if (!reason.empty()) return reason;
  }
  const bool has_notes = header.version >= 2 && header.notes.count != 0;
  if (has_notes) {
    std::string reason = CheckSection({"notes", header.notes, sizeof(format::Note), 1u << 20}, file_bytes);
    if (!reason.empty()) return reason;
  }
  const std::uint32_t ring = header.ring.count;
  if (ring == 0 || (ring & (ring - 1)) != 0) return "damaged: a ring of " + std::to_string(ring) + " records";
  layout->communicators = At<format::Communicator>(base, header.communicators.offset);
  layout->ring = At<format::Record>(base, header.ring.offset);
  layout->peers = At<format::Peer>(base, header.peers.offset);
  layout->observations = At<format::Observation>(base, header.observations.offset);
  if (has_words) layout->words = At<format::Words>(base, header.words.offset);
  if (has_parts) layout->parts = At<format::Part>(base, header.parts.offset);
  if (has_parts) layout->part_count = header.parts.count;
  if (has_notes) layout->notes = At<format::Note>(base, header.notes.offset);
  if (has_notes) layout->note_count = header.notes.count;
  const std::uint64_t events = has_notes ? format::EventsOffset(header.notes) : 0;
  if (events != 0) layout->events = At<format::Events>(base, events);
  const std::uint64_t payloads = has_notes ? format::PayloadsOffset(header.notes) : 0;
  if (payloads != 0) layout->payloads = At<format::Payloads>(base, payloads);
  layout->strings = At<char>(base, header.strings.offset);
  if (const std::uint64_t lines = format::PythonSitesOffset(header.strings); lines != 0)
    layout->python_sites = At<format::PythonSites>(base, lines);
  layout->communicator_count = header.communicators.count;
  layout->ring_count = ring;
  layout->peer_count = header.peers.count;
  layout->observation_count = header.observations.count;
  layout->string_bytes = header.strings.count;
  return {};
}

}  // namespace ncclwatch::reader
