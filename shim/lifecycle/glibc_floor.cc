// libstdc++'s string library brings std::random_device, and that arc4random, which glibc has only since 2.36. Nothing
// here draws random numbers; with this the built file needs no glibc newer than 2.34.
#include <sys/random.h>

#include <cstdint>

extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() {
  std::uint32_t value = 0;
  if (getrandom(&value, sizeof value, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof value)) return 0;
  return value;
}
