#include "watchdog/exchange/net/listen_place.h"

#include <fmt/format.h>

namespace ncclwatch::exchange {
namespace {

constexpr int kV4Bits = 96;  // of an IPv4 address in the form that maps it, before its own

}  // namespace

ListenPlace::ListenPlace(const settings::BindAddress& bind) : bind_(bind) {
  if (bind_.address.empty()) found_ = Endpoint::Any(0);
}

std::optional<Endpoint> ListenPlace::At(std::uint16_t port) {
  if (!found_) {
    const std::optional<Endpoint> wanted = Endpoint::Parse(bind_.address, 0);
    if (!wanted) return std::nullopt;
    // An address that nobody has yet is bind's to refuse.
    found_ = bind_.prefix < 0 ? wanted : OwnIn(*wanted, bind_.prefix + (wanted->IsV4() ? kV4Bits : 0));
  }
  return found_ ? std::optional(found_->With(port)) : std::nullopt;
}

std::optional<Endpoint> ListenPlace::Source(const Endpoint& to) {
  const std::optional<Endpoint> at = At(0);
  if (!at || at->IsAny() || at->IsV4() != to.IsV4()) return std::nullopt;
  return at;
}

bool ListenPlace::Reaches(const Endpoint& own) {
  const std::optional<Endpoint> at = At(0);
  if (!at) return false;
  if (at->IsAny()) return !at->IsV4() || own.IsV4();
  return at->address == own.address || own.IsLoopback();  // a name's loopback is this node's own view of it
}

std::string ListenPlace::ToText() const {
  return bind_.prefix < 0 ? bind_.address : fmt::format("{}/{}", bind_.address, bind_.prefix);
}

}  // namespace ncclwatch::exchange
