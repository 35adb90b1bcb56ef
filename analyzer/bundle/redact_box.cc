// Redactor::Box: the strings of a black box, in place.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "analyzer/bundle/redactor.h"
#include "ncclwatch/format/black_box.h"
#include "ncclwatch/format/payload.h"
#include "ncclwatch/format/python_site.h"

namespace ncclwatch::analyzer {
namespace {

using format::Header;
using format::Identity;
using format::Section;

// Of the bytes of a file, which are aligned to nothing.
template <typename T>
T ReadAt(const std::string& bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

bool IsWhole(const std::string& bytes) {
  if (bytes.size() < sizeof(Header) || std::memcmp(bytes.data(), format::kMagic, sizeof format::kMagic) != 0)
    return false;
  const auto whole = ReadAt<std::uint64_t>(bytes, offsetof(Header, file_bytes));
  return ReadAt<std::uint32_t>(bytes, offsetof(Header, endian_mark)) == format::kEndianMark &&
         ReadAt<std::uint32_t>(bytes, offsetof(Header, version)) <= format::kVersion && whole >= sizeof(Header) &&
         whole <= bytes.size();
}

}  // namespace

// Nothing where that is not inside.
void Redactor::InPlace(std::uint64_t offset, std::uint64_t length, std::string* bytes) {
  if (offset > bytes->size() || length > bytes->size() - offset) return;
  bytes->replace(offset, length, Text({bytes->data() + offset, length}));
}

bool Redactor::Box(std::string* bytes) {
  if (!IsWhole(*bytes)) return false;
  // What lies behind it are stacks of a crash, with whatever was in them.
  bytes->resize(ReadAt<std::uint64_t>(*bytes, offsetof(Header, file_bytes)));
  constexpr std::size_t kIdentity = offsetof(Header, identity);
  InPlace(kIdentity + offsetof(Identity, host), sizeof Identity::host, bytes);
  InPlace(kIdentity + offsetof(Identity, job), sizeof Identity::job, bytes);
  InPlace(kIdentity + offsetof(Identity, master_address), sizeof Identity::master_address, bytes);
  constexpr std::size_t kCommand = kIdentity + offsetof(Identity, command);
  bytes->replace(kCommand, sizeof Identity::command, Command({bytes->data() + kCommand, sizeof Identity::command}));
  InPlace(offsetof(Header, last_words) + offsetof(format::LastWords, text), sizeof format::LastWords::text, bytes);

  const auto strings = ReadAt<Section>(*bytes, offsetof(Header, strings));
  InPlace(strings.offset, strings.count, bytes);
  const std::uint64_t lines = format::PythonSitesOffset(strings);
  for (std::size_t i = 0; lines != 0 && i < format::kPythonSites; ++i) {
    const std::uint64_t one = lines + offsetof(format::PythonSites, entries) + i * sizeof(format::PythonSite);
    InPlace(one + offsetof(format::PythonSite, file), sizeof format::PythonSite::file, bytes);
  }
  const auto communicators = ReadAt<Section>(*bytes, offsetof(Header, communicators));
  for (std::uint64_t i = 0; i < std::min(communicators.count, format::kMostCommunicators); ++i)
    InPlace(communicators.offset + i * communicators.entry_bytes + offsetof(format::Communicator, label),
            sizeof format::Communicator::label, bytes);
  if (const auto words = ReadAt<Section>(*bytes, offsetof(Header, words)); words.count == 1) {
    for (std::size_t i = 0; i < format::kExceptions; ++i) {
      const std::uint64_t one = words.offset + offsetof(format::Words, exceptions) + i * sizeof(format::Exception);
      InPlace(one + offsetof(format::Exception, message), sizeof format::Exception::message, bytes);
      InPlace(one + offsetof(format::Exception, place), sizeof format::Exception::place, bytes);
    }
    for (std::size_t i = 0; i < format::kNcclErrors; ++i)
      InPlace(words.offset + offsetof(format::Words, errors) + i * sizeof(format::NcclError) +
                  offsetof(format::NcclError, text),
              sizeof format::NcclError::text, bytes);
  }
  const auto notes = ReadAt<Section>(*bytes, offsetof(Header, notes));
  const std::uint64_t events = format::EventsOffset(notes);
  for (std::size_t i = 0; events != 0 && i < format::kEventCapacity; ++i) {
    const std::uint64_t one = events + offsetof(format::Events, entries) + i * sizeof(format::Event);
    InPlace(one + offsetof(format::Event, type), sizeof format::Event::type, bytes);
    InPlace(one + offsetof(format::Event, details), sizeof format::Event::details, bytes);
  }
  const std::uint64_t payloads = format::PayloadsOffset(notes);
  for (std::size_t i = 0; payloads != 0 && i < format::kPayloads; ++i)
    InPlace(
        payloads + offsetof(format::Payloads, entries) + i * sizeof(format::Payload) + offsetof(format::Payload, name),
        sizeof format::Payload::name, bytes);
  return true;
}

}  // namespace ncclwatch::analyzer
