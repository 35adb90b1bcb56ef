#include <sys/random.h>

#include "watchdog/exchange/protocol/crypto.h"

namespace ncclwatch::exchange {

bool RandomBytes(std::span<std::uint8_t> bytes) {
  return getrandom(bytes.data(), bytes.size(), GRND_NONBLOCK) == static_cast<ssize_t>(bytes.size());
}

std::string Hex(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace ncclwatch::exchange
