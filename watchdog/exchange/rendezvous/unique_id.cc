#include "watchdog/exchange/rendezvous/unique_id.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "watchdog/exchange/protocol/bytes.h"
#include "watchdog/exchange/protocol/crypto.h"
#include "watchdog/exchange/rendezvous/address.h"

namespace ncclwatch::exchange {
namespace {

constexpr std::size_t kTailAt = 96, kCrcAt = 124;
constexpr std::uint16_t kTailMagic = 'N' | 'W' << 8;
constexpr std::uint8_t kVersion = 1;

std::optional<Tail> Place(const std::uint8_t* socket_address) {
  Tail tail;
  sa_family_t family = 0;
  std::memcpy(&family, socket_address, sizeof(family));
  if (family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, socket_address, sizeof(in));
    tail.family = 4;
    tail.port = ntohs(in.sin_port);
    std::memcpy(tail.address.data(), &in.sin_addr, 4);
  } else if (family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, socket_address, sizeof(in));
    tail.family = 6;
    tail.port = ntohs(in.sin6_port);
    std::memcpy(tail.address.data(), &in.sin6_addr, 16);
  } else {
    return std::nullopt;
  }
  const bool any = std::any_of(tail.address.begin(), tail.address.end(), [](std::uint8_t byte) { return byte != 0; });
  return tail.port != 0 && any ? std::optional(tail) : std::nullopt;
}

// Where no other node comes to.
bool IsLoopback(const Tail& tail) {
  if (tail.family == 4) return tail.address[0] == 127;
  return std::all_of(tail.address.begin(), tail.address.end() - 1, [](std::uint8_t byte) { return byte == 0; }) &&
         tail.address.back() == 1;
}

}  // namespace

std::uint32_t Crc32(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = ~0u;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1)));
  }
  return ~crc;
}

bool HasTail(int nccl_version, const char* nccl_comm_id) {
  if (nccl_comm_id && *nccl_comm_id) return false;
  return nccl_version >= 21000 && (nccl_version < 21600 || nccl_version >= 22300);
}

bool PutTail(const Tail& tail, std::span<std::uint8_t, kUniqueIdBytes> id) {
  const auto place = id.subspan(kTailAt);
  if (std::any_of(place.begin(), place.end(), [](std::uint8_t byte) { return byte != 0; })) return false;
  std::string bytes;
  Writer writer(&bytes);
  writer.Put(kTailMagic).Put(kVersion).Put(static_cast<std::uint8_t>(tail.family)).Put(tail.port);
  writer.PutRaw(Text(tail.address)).PutRaw(Text(tail.secret));
  std::copy(bytes.begin(), bytes.end(), place.begin());
  std::string crc;
  Writer(&crc).Put(Crc32(id.first(kCrcAt)));
  std::copy(crc.begin(), crc.end(), id.begin() + kCrcAt);
  return true;
}

std::optional<Tail> TailOf(UniqueId id) {
  Reader reader(Text(id.subspan(kTailAt)));
  if (reader.Get<std::uint16_t>() != kTailMagic || reader.Get<std::uint8_t>() != kVersion) return std::nullopt;
  Tail tail;
  tail.family = reader.Get<std::uint8_t>();
  tail.port = reader.Get<std::uint16_t>();
  const std::string_view address = reader.GetRaw(tail.address.size()), secret = reader.GetRaw(tail.secret.size());
  if (reader.Get<std::uint32_t>() != Crc32(id.first(kCrcAt))) return std::nullopt;
  if ((tail.family != 4 && tail.family != 6) || tail.port == 0) return std::nullopt;
  std::copy(address.begin(), address.end(), tail.address.begin());
  std::copy(secret.begin(), secret.end(), tail.secret.begin());
  return tail;
}

Address AddressOf(const Tail& tail) {
  char text[INET6_ADDRSTRLEN] = {};
  Address address;
  if (!inet_ntop(tail.family == 4 ? AF_INET : AF_INET6, tail.address.data(), text, sizeof(text))) return address;
  address.kind = Address::Kind::kTcp;
  address.host = text;
  address.port = tail.port;
  address.source = "ncclUniqueId";
  return address;
}

bool OfferPlace(std::span<std::uint8_t, kUniqueIdBytes> id) {
  std::optional<Tail> tail = PlaceOfNccl(id);
  if (!tail || IsLoopback(*tail)) return false;
  tail->port = PortOf(Text(id));
  // Not the C library's, which is a point of cancellation: this runs in the application's thread.
  const auto bytes = static_cast<long>(tail->secret.size());
  if (syscall(SYS_getrandom, tail->secret.data(), tail->secret.size(), GRND_NONBLOCK) != bytes) return false;
  return PutTail(*tail, id);
}

std::optional<Tail> PlaceOfNccl(UniqueId id) {
  // Since 2.16 eight random bytes come before the address, and by chance these look like the start of an address
  // themselves, so that the later place is looked at first.
  if (std::optional<Tail> place = Place(id.data() + 8)) return place;
  return Place(id.data());
}

}  // namespace ncclwatch::exchange
