#include "watchdog/settings/bind_address.h"
#include "watchdog/settings/words.h"

#include <arpa/inet.h>

#include <charconv>

namespace ncclwatch::settings {
namespace {

bool TakePorts(std::string_view text, BindAddress* bind) {
  if (text.empty()) return true;
  if (text[0] != ':') return false;
  text.remove_prefix(1);
  const std::size_t dash = text.find('-');
  if (!Number(text.substr(0, dash), &bind->first)) return false;
  bind->last = bind->first;
  if (dash != std::string_view::npos && !Number(text.substr(dash + 1), &bind->last)) return false;
  return bind->first != 0 && bind->first <= bind->last;
}

bool TakeAddress(std::string_view text, int family, BindAddress* bind) {
  if (const std::size_t slash = text.find('/'); slash != std::string_view::npos) {
    if (!Number(text.substr(slash + 1), &bind->prefix)) return false;
    if (bind->prefix < 0 || bind->prefix > (family == AF_INET ? 32 : 128)) return false;
    text = text.substr(0, slash);
  }
  bind->address = text;
  in6_addr number{};
  return inet_pton(family, bind->address.c_str(), &number) == 1;
}

}  // namespace

std::optional<BindAddress> ParseBind(std::string_view text) {
  BindAddress bind;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos || !TakeAddress(text.substr(1, end - 1), AF_INET6, &bind)) return std::nullopt;
    text.remove_prefix(end + 1);
  } else {
    const std::string_view address = text.substr(0, text.find(':'));
    if (!address.empty() && !TakeAddress(address, AF_INET, &bind)) return std::nullopt;
    text.remove_prefix(address.size());
  }
  if (!TakePorts(text, &bind)) return std::nullopt;
  return bind;
}

std::uint16_t InRange(const BindAddress& bind, std::uint16_t port) {
  if (port == 0 || !bind.HasPorts() || (port >= bind.first && port <= bind.last)) return port;
  return static_cast<std::uint16_t>(bind.first + port % (bind.last - bind.first + 1));
}

}  // namespace ncclwatch::settings
