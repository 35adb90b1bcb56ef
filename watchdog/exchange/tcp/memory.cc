#include "watchdog/exchange/tcp/memory.h"

#include <algorithm>

#include "watchdog/act/files.h"
#include "watchdog/exchange/protocol/bytes.h"
#include "watchdog/exchange/protocol/crypto.h"
#include "watchdog/exchange/rendezvous/unique_id.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::exchange {
namespace {

constexpr std::string_view kMemoryMagic = "NCWM\1";
constexpr std::size_t kLargestMemory = 16 << 10;

}  // namespace

std::string Memory::Encode() const {
  std::string out(kMemoryMagic);
  Writer(&out).Put(std::uint8_t{was_hub}).Put(port);
  // The same forms as on the wire.
  const std::string elsewhere = Redirect{succession.term, hub, hub_node}.Encode();
  Writer(&out).PutText(elsewhere).PutRaw(succession.Encode());
  Writer(&out).Put(Crc32(Bytes(out)));
  return out;
}

std::optional<Memory> Memory::Decode(std::string_view bytes) {
  if (bytes.size() < kMemoryMagic.size() + 4 || !bytes.starts_with(kMemoryMagic)) return std::nullopt;
  const std::string_view content = bytes.substr(0, bytes.size() - 4);
  if (Reader(bytes.substr(content.size())).Get<std::uint32_t>() != Crc32(Bytes(content))) return std::nullopt;
  Reader reader(content.substr(kMemoryMagic.size()));
  Memory memory;
  memory.was_hub = reader.Get<std::uint8_t>() != 0;
  memory.port = reader.Get<std::uint16_t>();
  const std::optional<Redirect> elsewhere = Redirect::Decode(reader.GetText(255));
  const std::optional<SuccessionList> list = reader.ok() ? SuccessionList::Decode(reader.rest()) : std::nullopt;
  if (!elsewhere || !list) return std::nullopt;
  memory.hub = elsewhere->hub;
  memory.hub_node = elsewhere->node;
  memory.succession = *list;
  return memory;
}

std::optional<Memory> Recall(const descriptors::Directory& directory, const std::string& name) {
  const std::optional<std::string> bytes = rundir::ReadSmall(directory, name, kLargestMemory);
  return bytes ? Memory::Decode(*bytes) : std::nullopt;
}

void Remember(const descriptors::Directory& directory, const std::string& name, const Memory& memory) {
  act::WriteFile(directory, name, memory.Encode());
}

}  // namespace ncclwatch::exchange
